import { readFileSync } from 'node:fs';
import { SourceMap, type SourceMapPayload } from 'node:module';

const marker = '//# sourceMappingURL=data:application/json;base64,';

/**
 * The stack of an error with the places of the bundle's sources. The map inside the bundle is read when the first error
 * needs it, because Node would have to be started with an option to read it and would do so at every start.
 */
export class StackTraces {
  private map: SourceMap | undefined;
  private loaded = false;

  constructor(private readonly bundle: string | undefined) {}

  of(error: unknown): string {
    if (!(error instanceof Error)) return String(error);
    const { bundle } = this;
    const stack = error.stack ?? String(error);
    if (bundle === undefined || !stack.includes(bundle)) return stack;
    return stack.replaceAll(
      placesIn(bundle),
      (place, line: string, column: string) => this.original(Number(line), Number(column)) ?? place,
    );
  }

  private original(line: number, column: number): string | undefined {
    if (!this.loaded) {
      this.loaded = true;
      this.map = readMap(this.bundle ?? '');
    }
    const entry = this.map?.findEntry(line - 1, column - 1);
    if (entry === undefined || !('originalSource' in entry)) return undefined;
    return `${entry.originalSource}:${entry.originalLine + 1}:${entry.originalColumn + 1}`;
  }
}

function placesIn(bundle: string): RegExp {
  return new RegExp(`${bundle.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')}:(\\d+):(\\d+)`, 'g');
}

function readMap(bundle: string): SourceMap | undefined {
  try {
    const text = readFileSync(bundle, 'utf8');
    const at = text.lastIndexOf(marker);
    if (at < 0) return undefined;
    const payload = Buffer.from(text.slice(at + marker.length).trim(), 'base64').toString('utf8');
    return new SourceMap(JSON.parse(payload) as SourceMapPayload);
  } catch {
    return undefined;
  }
}

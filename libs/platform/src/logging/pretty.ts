import type { DestinationStream } from 'pino';

const LEFT_OUT = new Set(['level', 'time', 'app', 'msg']);

/** Turns JSON lines into lines for reading at a terminal: `12:30:01.250 WARN  runner lease lost runId="…"`. */
export function prettyStream(to: DestinationStream): DestinationStream {
  return { write: (line) => to.write(prettyLine(line)) };
}

/** One line; a line that is no JSON object stays as it is. */
export function prettyLine(line: string): string {
  let entry: Record<string, unknown>;
  try {
    entry = JSON.parse(line) as Record<string, unknown>;
  } catch {
    return line;
  }
  const time = String(entry['time']).slice(11, 23);
  const level = String(entry['level']).toUpperCase().padEnd(5);
  const members = Object.entries(entry)
    .filter(([name]) => !LEFT_OUT.has(name))
    .map(([name, value]) => ` ${name}=${JSON.stringify(value)}`);
  return `${time} ${level} ${String(entry['app'])} ${String(entry['msg'] ?? '')}${members.join('')}\n`;
}

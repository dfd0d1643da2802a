import type { CheckResult } from './check.js';
import type { ConformanceReport } from './run.js';

const marks = { passed: 'ok  ', failed: 'FAIL', skipped: 'skip' } as const;
const aboutWidth = 20;
const titleWidth = 76;

/** A check as a line of the table; what failed says why below. */
export function lineOf({ outcome, about, title, reason, ms }: CheckResult): string {
  const row = `${marks[outcome]}  ${about.padEnd(aboutWidth)}${title.padEnd(titleWidth)}`;
  if (outcome === 'passed') return `${row} ${ms} ms`;
  return outcome === 'skipped' ? `${row} ${reason ?? ''}` : `${row.trimEnd()}\n      ${reason ?? ''}`;
}

/** The plugin and the sum of its checks, for people. */
export function summaryOf(report: ConformanceReport): string {
  const { plugin, version, transport, autoMtls, subscriptions, directives, passed, failed, skipped } = report;
  const over =
    transport === undefined ? 'did not start' : transport === 'stdio' ? 'NDJSON' : autoMtls ? 'gRPC, AutoMTLS' : 'gRPC';
  return [
    `${plugin}${version ? ` ${version}` : ''} (${over}); subscribes to ${subscriptions.join(', ') || 'nothing'}`,
    ...(directives || transport === undefined
      ? []
      : ['It follows no directives, so its own decisions were not judged.']),
    `${passed} passed, ${failed} failed${skipped === 0 ? '' : `, ${skipped} skipped`}`,
  ].join('\n');
}

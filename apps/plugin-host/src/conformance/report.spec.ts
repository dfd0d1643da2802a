import { lineOf, summaryOf } from './report.js';

const check = { about: 'agent/input', title: 'answers 64 KiB', ms: 12 };
const report = {
  plugin: 'redact',
  folder: '/plugins/redact',
  transport: 'grpc' as const,
  autoMtls: true,
  version: '0.1.0',
  subscriptions: ['agent/input'],
  directives: false,
  results: [],
  passed: 46,
  failed: 0,
  skipped: 1,
};

describe('the report for people', () => {
  it('has a line for each check, and what to do below one that failed', () => {
    expect(lineOf({ ...check, outcome: 'passed' })).toMatch(/^ok {4}agent\/input +answers 64 KiB +12 ms$/);
    expect(lineOf({ ...check, outcome: 'skipped', reason: 'it has none' })).toMatch(/^skip {2}.* it has none$/);
    expect(lineOf({ ...check, outcome: 'failed', reason: 'timeout: none' })).toMatch(
      /^FAIL {2}agent\/input +answers 64 KiB\n {6}timeout: none$/,
    );
  });

  it('ends with the plugin and the sums', () => {
    expect(summaryOf(report)).toBe(
      [
        'redact 0.1.0 (gRPC, AutoMTLS); subscribes to agent/input',
        'It follows no directives, so its own decisions were not judged.',
        '46 passed, 0 failed, 1 skipped',
      ].join('\n'),
    );
    const { transport: _, ...unstarted } = report;
    expect(summaryOf({ ...unstarted, passed: 0, failed: 1, skipped: 0 })).toMatch(
      /^redact 0\.1\.0 \(did not start\).*\n0 passed, 1 failed$/,
    );
  });
});

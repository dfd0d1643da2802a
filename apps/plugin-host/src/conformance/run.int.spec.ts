import { createPluginRoot, type PluginRoot } from '../../test/plugin-folder.js';
import { checkConformance } from './run.js';
import type { SpecimenOptions } from './specimen.js';

const options: SpecimenOptions = {
  environment: { PATH: process.env['PATH'] },
  startTimeoutMs: 30_000,
  timeoutMs: 20_000,
};

let root: PluginRoot;

beforeEach(() => {
  root = createPluginRoot();
});

afterEach(() => root.remove());

/** What does not hold for a plugin that behaves so at its one gate. */
async function failuresOf(answer: object, more: object = {}, limits: Partial<SpecimenOptions> = {}) {
  const port = 'tools/pre-execute';
  const folder = root.addFixture('p', { subscriptions: [port], answers: { [port]: answer }, ...more });
  const { results, failed, passed } = await checkConformance(folder, { ...options, ...limits });
  const failures = results.filter(({ outcome }) => outcome === 'failed');
  expect(failures).toHaveLength(failed);
  return { passed, failures: failures.map(({ title, reason }) => `${title}: ${reason}`) };
}

describe('the conformance of a plugin', () => {
  it('holds where it behaves', async () => {
    const { failures, passed } = await failuresOf({});
    expect(failures).toEqual([]);
    expect(passed).toBeGreaterThan(20);
  });

  it.each<[string, object, object, RegExp]>([
    [
      'writes to stdout after the handshake',
      { run: "require('node:fs').writeSync(1, 'loading\\n'); return ''" },
      {},
      /^has written nothing on stdout but the protocol: it wrote \d+ bytes, "loading/,
    ],
    ['ignores Shutdown', {}, { shutdown: { ignore: true } }, /^ends by itself .*: it was killed/],
    [
      'touches what is not its own in the scratchpad',
      { remember: { 'conformance.kept': 1 } },
      {},
      /^leaves alone .*: it changed conformance\.kept/,
    ],
    [
      'ends on SIGINT',
      { run: "process.removeAllListeners('SIGINT'); return ''" },
      {},
      /^ignores SIGINT.*: (its process has ended|crashed: .*SIGINT)/,
    ],
    [
      'takes arguments for an object',
      { run: "if (Array.isArray(question.call.arguments)) throw new Error('no list'); return ''" },
      {},
      /^answers arguments that are no object: error: no list/,
    ],
    [
      'dies of a list',
      { run: "if (Array.isArray(question.call.arguments)) process.exit(3); return ''" },
      {},
      /^answers arguments that are no object: crashed: .*exit code 3/,
    ],
  ])('tells that it %s, and nothing else', async (_, answer, more, failure) => {
    const { failures } = await failuresOf(answer, more);
    expect(failures).toEqual([expect.stringMatching(failure)]);
  });

  it.each<[string, object, Partial<SpecimenOptions>, RegExp]>([
    ['answers with another call', { payload: { call: { id: 'x', name: 'shell' } } }, {}, /invalid: call\.id differs/],
    ['answers with the decision of another gate', { type: 'input/blocked' }, {}, /invalid: type "input\/blocked"/],
    ['hangs', { hang: true }, { timeoutMs: 200 }, /timeout: no answer within 200 ms/],
  ])('tells that it %s', async (_, answer, limits, failure) => {
    const { failures } = await failuresOf(answer, {}, limits);
    expect(failures).toContainEqual(expect.stringMatching(/^answers a plain text: /));
    expect(failures).toContainEqual(expect.stringMatching(failure));
  });

  it('ends with the reason of the host where it does not come up', async () => {
    const folder = root.addScript('p', '#!/bin/sh\necho "no licence" >&2\nexit 3\n');
    const { results, plugin } = await checkConformance(folder, options);
    expect(plugin).toBe('p');
    expect(results).toEqual([
      expect.objectContaining({ outcome: 'failed', reason: expect.stringMatching(/exit code 3.*no licence/) }),
    ]);
  });
});

import { checkHistory, INVARIANTS } from './check-history.js';
import type { History } from './history.js';

const TENANT = 't';
const EVENT = { sessionId: 's', tenantId: TENANT, runId: 'r', turnId: null, attempt: 1, payload: {} };

/** A run whose call was gated, approved, executed once and told; one client saw it all. */
const sound: History = {
  sessions: [{ id: 's', tenantId: TENANT, lastSeq: 5 }],
  runs: [
    {
      id: 'r',
      tenantId: TENANT,
      sessionId: 's',
      status: 'completed',
      leaseToken: 2,
      leaseUntil: null,
      cancelReason: null,
      requestId: 'q',
      position: 1,
      firstSeq: 1,
      endedSeq: 5,
      tools: ['ping'],
    },
  ],
  events: [
    { ...EVENT, seq: 1, eventId: 'e1', type: 'run.created', attempt: null },
    { ...EVENT, seq: 2, eventId: 'e2', type: 'run.started' },
    { ...EVENT, seq: 3, eventId: 'e3', type: 'tool.execution_started' },
    { ...EVENT, seq: 4, eventId: 'e4', type: 'tool.execution_result', attempt: 2 },
    { ...EVENT, seq: 5, eventId: 'e5', type: 'run.completed', attempt: 2 },
  ],
  turns: [{ id: 'u', runId: 'r', tools: ['ping', 'pay'] }],
  calls: [
    {
      id: 'c',
      runId: 'r',
      sessionId: 's',
      name: 'pay',
      arguments: { to: 'a' },
      effect: 'effectful',
      state: 'succeeded',
      digest: 'd',
      gateDecision: 'proceed',
      executionCount: 1,
    },
  ],
  executions: [{ callId: 'c', n: 1, attempt: 1, state: 'succeeded' }],
  decisions: [{ callId: 'c', approvalId: 'a', digest: 'd', editedDigest: null, decision: 'approve' }],
  audit: [
    {
      id: 1,
      sessionId: 's',
      tenantId: TENANT,
      runId: 'r',
      callId: 'c',
      requestId: null,
      attempt: 1,
      gate: 'beforeToolCall',
      hook: 'one',
      outcome: 'continued',
    },
  ],
  effects: [{ tool: 'pay', callId: 'c', idempotencyKey: 'c', attempt: 1, args: { to: 'a' }, at: 0 }],
  recordings: [
    {
      sessionId: 's',
      tenantId: TENANT,
      whole: true,
      frames: [
        { seq: 1, eventId: 'e1', type: 'run.created' },
        { seq: 2, eventId: 'e2', type: 'run.started' },
        { seq: 3, eventId: 'e3', type: 'tool.execution_started' },
        { seq: 4, eventId: 'e4', type: 'tool.execution_result' },
        { seq: 5, eventId: 'e5', type: 'run.completed' },
      ],
    },
  ],
  requests: [{ tenantId: TENANT, key: 'k', body: 'b', runIds: ['r'] }],
  chain: [
    { name: 'one', gates: ['beforeToolCall'] },
    { name: 'two', gates: ['beforeToolCall'] },
  ],
  retried: new Map(),
  accepted: ['r'],
  logs: new Map([['runner-0', 'ready']]),
  secrets: new Map([['the key', 'cdk_secret']]),
  leftovers: [],
};

const [run] = sound.runs as [History['runs'][number]];
const [call] = sound.calls as [History['calls'][number]];
const [row] = sound.audit as [History['audit'][number]];
const [recording] = sound.recordings as [History['recordings'][number]];
const event = (seq: number) => sound.events[seq - 1] as History['events'][number];
const withEvents = (...events: readonly History['events'][number][]): Partial<History> => ({
  events: [...sound.events, ...events],
  sessions: [{ id: 's', tenantId: TENANT, lastSeq: sound.events.length + events.length }],
  recordings: [],
});

test('a sound history breaks no promise', () => {
  expect(checkHistory(sound)).toEqual([]);
});

test('every promise of the catalogue is judged', () => {
  const ids = INVARIANTS.map(({ id }) => Number(id.slice(1))).sort((a, b) => a - b);
  expect(ids).toEqual(Array.from({ length: 18 }, (_, index) => index + 1));
});

describe.each<[id: string, harm: string, broken: string, history: Partial<History>]>([
  ['I1', 'lost', 'an accepted run is gone', { accepted: ['r', 'gone'] }],
  ['I1', 'lost', 'a run is open', { runs: [{ ...run, id: 'o', status: 'running', endedSeq: null }, run] }],
  ['I2', 'lost', 'a run ended without an event', { runs: [run, { ...run, id: 'silent' }] }],
  ['I2', 'doubled', 'a run ended twice', withEvents({ ...event(5), seq: 6, eventId: 'e6' })],
  ['I2', 'stale_write', 'a run goes on after its end', withEvents({ ...event(3), attempt: 2, seq: 6, eventId: 'e6' })],
  ['I2', 'other', 'the end is another than the state', { runs: [{ ...run, status: 'cancelled' }] }],
  ['I2', 'other', 'an open run has an end', { runs: [{ ...run, status: 'running' }] }],
  ['I3', 'other', 'a number is missing', { events: sound.events.filter(({ seq }) => seq !== 3) }],
  ['I3', 'other', 'the newest event is missing', { events: sound.events.slice(0, 4) }],
  [
    'I3',
    'sse_gap',
    'a client missed an event',
    { recordings: [{ ...recording, frames: recording.frames.filter(({ seq }) => seq !== 3) }] },
  ],
  [
    'I3',
    'sse_dup',
    'a client saw an event twice',
    { recordings: [{ ...recording, frames: recording.frames.flatMap((frame) => [frame, frame]) }] },
  ],
  [
    'I3',
    'sse_gap',
    'a client never saw the end',
    { recordings: [{ ...recording, frames: recording.frames.slice(0, 4) }] },
  ],
  [
    'I4',
    'other',
    'a client saw what was never stored',
    {
      recordings: [{ ...recording, frames: [...recording.frames, { seq: 6, eventId: 'e6', type: 'run.started' }] }],
    },
  ],
  [
    'I4',
    'other',
    'a client saw another event under the number',
    { recordings: [{ ...recording, frames: recording.frames.map((frame) => ({ ...frame, eventId: 'x' })) }] },
  ],
  [
    'I5',
    'stale_write',
    'an older attempt wrote after a newer',
    { events: sound.events.map((each) => (each.seq === 5 ? { ...each, attempt: 1 } : each)) },
  ],
  ['I5', 'stale_write', 'an attempt wrote that was never leased', { runs: [{ ...run, leaseToken: 1 }] }],
  [
    'I5',
    'stale_write',
    'an older attempt executed after a newer',
    {
      executions: [
        { callId: 'c', n: 1, attempt: 2, state: 'failed' },
        { callId: 'c', n: 2, attempt: 1, state: 'succeeded' },
      ],
    },
  ],
  ['I6', 'doubled', 'an effectful call acted twice', { effects: [...sound.effects, ...sound.effects] }],
  [
    'I6',
    'doubled',
    'an effectful call was begun twice',
    { executions: [...sound.executions, { callId: 'c', n: 2, attempt: 2, state: 'succeeded' }] },
  ],
  ['I6', 'doubled', 'an effect has no intent', { executions: [] }],
  ['I6', 'doubled', 'an effect has no call', { calls: [], executions: [] }],
  [
    'I6',
    'doubled',
    'a call acted under another key',
    { effects: sound.effects.map((effect) => ({ ...effect, idempotencyKey: 'other' })) },
  ],
  [
    'I6',
    'other',
    'an intent without outcome was not told',
    { executions: [{ callId: 'c', n: 1, attempt: 1, state: 'executing' }] },
  ],
  [
    'I6',
    'other',
    'an unknown call has no event',
    { executions: [{ callId: 'c', n: 1, attempt: 1, state: 'unknown' }] },
  ],
  [
    'I6',
    'other',
    'a call with an outcome is told as unknown',
    withEvents({ ...event(4), seq: 6, eventId: 'e6', type: 'tool.outcome_unknown', payload: { callId: 'c' } }),
  ],
  ['I7', 'other', 'no gate was asked', { calls: [{ ...call, digest: null, gateDecision: null }] }],
  ['I7', 'other', 'a person denied it', { decisions: [{ ...sound.decisions[0], decision: 'deny' } as never] }],
  ['I7', 'other', 'a person approved other arguments', { calls: [{ ...call, digest: 'changed' }] }],
  ['I7', 'other', 'the effect has other arguments', { calls: [{ ...call, arguments: { to: 'b' } }] }],
  ['I8', 'other', 'a gate that could not be asked let it pass', { audit: [{ ...row, outcome: 'timeout' }] }],
  [
    'I9',
    'other',
    'a hook was asked after a refusal',
    {
      audit: [
        { ...row, outcome: 'blocked' },
        { ...row, id: 2, hook: 'two' },
      ],
      executions: [],
      effects: [],
    },
  ],
  ['I10', 'other', 'a hook was asked without plugins', { chain: [] }],
  [
    'I11',
    'other',
    'an event belongs to another tenant',
    { events: sound.events.map((each) => ({ ...each, tenantId: 'x' })) },
  ],
  ['I11', 'other', 'a client of another tenant saw a frame', { recordings: [{ ...recording, tenantId: 'x' }] }],
  ['I12', 'other', 'an unsubscribed plugin was asked', { chain: [{ name: 'one', gates: ['beforeInput'] }] }],
  ['I13', 'other', 'a log holds a secret', { logs: new Map([['runner-0', 'with cdk_secret']]) }],
  [
    'I14',
    'other',
    'a handled request has a run',
    { audit: [{ ...row, gate: 'beforeInput', outcome: 'handled', requestId: 'q' }], chain: [] },
  ],
  [
    'I15',
    'doubled',
    'a key gave two runs',
    { requests: [...sound.requests, { tenantId: TENANT, key: 'k', body: 'b', runIds: ['another'] }] },
  ],
  ['I16', 'other', 'a built-in tool is missing', { turns: [{ id: 'u', runId: 'r', tools: ['pay'] }] }],
  ['I16', 'other', 'a tool is offered twice', { turns: [{ id: 'u', runId: 'r', tools: ['ping', 'ping'] }] }],
  ['I17', 'other', 'a process is left', { leftovers: ['the process x'] }],
  [
    'I18',
    'doubled',
    'another run began inside',
    { events: sound.events.map((each) => (each.seq === 3 ? { ...each, runId: 'b', type: 'run.started' } : each)) },
  ],
  [
    'I18',
    'doubled',
    'another run acted inside',
    { events: sound.events.map((each) => (each.seq === 3 ? { ...each, runId: 'b' } : each)) },
  ],
])('%s', (id, harm, broken, history) => {
  test(`is red, as ${harm}, when ${broken}`, () => {
    const findings = checkHistory({ ...sound, ...history });
    expect(findings.map((finding) => [finding.id, finding.harm])).toContainEqual([id, harm]);
  });
});

test('a call that a person wants tried again may act once more', () => {
  const again: History = {
    ...sound,
    effects: [...sound.effects, { ...sound.effects[0], attempt: 2 } as never],
    executions: [...sound.executions, { callId: 'c', n: 2, attempt: 2, state: 'succeeded' }],
  };
  expect(checkHistory(again).map(({ id }) => id)).toEqual(['I6', 'I6']);
  expect(checkHistory({ ...again, retried: new Map([['c', 1]]) })).toEqual([]);
});

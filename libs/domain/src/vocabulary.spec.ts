import { AppError, isAppError, toAppError } from './errors/app-error.js';
import { ERROR_CODES, isErrorCode } from './errors/codes.js';
import { failureCodeOf, HOOK_OUTCOMES } from './gate-outcome.js';
import { isId } from './ids.js';
import type { JsonObject, JsonValue } from './json.js';
import { LEDGER_EVENT_TYPES, TERMINAL_EVENTS } from './ledger-event.js';
import { type Message, textOf } from './message.js';
import { RUN_STATUSES } from './run.js';
import { RunStopped, stopKindOf } from './stop-signal.js';
import type { ToolResult } from './tool-call.js';
import { outputForModel, toolMessageOf } from './tool-message.js';
import { addUsage, NO_USAGE } from './usage.js';
import { isWellFormed } from './well-formed.js';

describe('errors', () => {
  it('are known by code, also across realms', () => {
    const error = new AppError('not_found', 'There is no run x.');
    expect(error.status).toBe(404);
    expect(isAppError(error, 'not_found')).toBe(true);
    expect(isAppError(error, 'conflict')).toBe(false);
    expect(isAppError(Object.assign(new Error('x'), { name: 'AppError', code: 'not_found' }))).toBe(true);
    expect(isAppError(Object.assign(new Error('x'), { name: 'AppError', code: 'ENOENT' }))).toBe(false);
    expect(isAppError({ name: 'AppError', code: 'not_found' })).toBe(false);
  });

  it('keep a foreign error as cause and out of the message', () => {
    const foreign = new Error('password=1');
    const error = toAppError(foreign);
    expect([error.code, error.cause, error.message.includes('password')]).toEqual(['invariant_broken', foreign, false]);
    expect(toAppError(error)).toBe(error);
  });

  it('have statuses of failures only, and no code by inheritance', () => {
    expect(Object.values(ERROR_CODES).every((status) => status >= 400 && status < 600)).toBe(true);
    expect(isErrorCode('toString')).toBe(false);
  });
});

describe('gate outcomes', () => {
  it('tell what is an answer, what came too late and what could not be asked', () => {
    const by = (code: string | undefined) => HOOK_OUTCOMES.filter((outcome) => failureCodeOf(outcome) === code);
    expect(by('gate_timeout')).toEqual(['timeout', 'not asked']);
    expect(by('gate_unavailable')).toEqual(['crashed', 'error', 'invalid', 'oversize', 'unreachable', 'not ready']);
    expect(by(undefined)).toEqual([
      'continued',
      'changed',
      'handled',
      'blocked',
      'asked',
      'skipped',
      'aborted',
      'not matched',
    ]);
  });
});

describe('ledger events', () => {
  it('have unique types and one terminal type per terminal state', () => {
    expect(new Set(LEDGER_EVENT_TYPES).size).toBe(LEDGER_EVENT_TYPES.length);
    for (const [status, type] of Object.entries(TERMINAL_EVENTS)) {
      expect(RUN_STATUSES).toContain(status);
      expect(LEDGER_EVENT_TYPES).toContain(type);
    }
  });
});

describe('messages', () => {
  const message = (content: Message['content']): Message => ({
    id: 'm',
    sessionId: 's',
    role: 'tool',
    content,
    eventSeq: 0,
    createdAt: '2024-01-01T00:00:00Z',
  });

  it('give their text', () => {
    expect(textOf(message({ text: 'hi' }))).toBe('hi');
    expect(textOf(message({ callId: 'c', output: 'plain' }))).toBe('plain');
    expect(textOf(message({ callId: 'c', output: { a: 1 } }))).toBe('{"a":1}');
  });

  it.each([
    [{ success: true, output: { a: 1 }, error: 'ignored' }, { a: 1 }],
    [{ success: false, output: 'why', error: 'why' }, 'why'],
    [{ success: false, output: null, error: 'why' }, { error: 'why' }],
    [{ success: false, output: '', error: 'why' }, { error: 'why' }],
    [
      { success: false, output: { partial: 1 }, error: 'why' },
      { error: 'why', output: { partial: 1 } },
    ],
    [{ success: false, output: 'x' }, 'x'],
  ])('show the model of %j: %j', (result, output) => expect(outputForModel(result)).toEqual(output));

  it('carry a result under the id of its call', () => {
    const of = { sessionId: 's', runId: 'r', createdAt: '2024-01-01T00:00:00Z' };
    expect(toolMessageOf({ id: 'c', turnId: 't' }, { success: true, output: 1 }, of)).toEqual({
      id: 'c',
      sessionId: 's',
      runId: 'r',
      turnId: 't',
      role: 'tool',
      content: { callId: 'c', output: 1 },
      eventSeq: 0,
      createdAt: of.createdAt,
    });
  });

  describe('of a call whose arguments a person edited', () => {
    const told = (result: ToolResult, editedArguments: JsonValue = { amount: 60 }) => {
      const of = { sessionId: 's', runId: 'r', createdAt: '2024-01-01T00:00:00Z' };
      const { content } = toolMessageOf({ id: 'c', turnId: 't', editedArguments }, result, of);
      return 'output' in content ? content.output : undefined;
    };
    const note = expect.stringMatching(/A person changed the arguments.*\{"amount":60\}$/);

    it.each<[ToolResult, JsonObject]>([
      [{ success: true, output: 'paid' }, { output: 'paid' }],
      [{ success: true, output: { id: 1 } }, { output: { id: 1 } }],
      [{ success: false, output: 'Blocked: no', error: 'Blocked: no' }, { output: 'Blocked: no' }],
      [{ success: false, output: null, error: 'down' }, { error: 'down' }],
      [
        { success: false, output: 1, error: 'down' },
        { error: 'down', output: 1 },
      ],
    ])('say so beside %j', (result, output) => expect(told(result)).toEqual({ note, ...output }));

    it('show so much of them and no more', () => {
      const text = JSON.stringify(told({ success: true, output: 1 }, { text: '😀'.repeat(5_000) }));
      expect(text.length).toBeLessThan(2_500);
      expect(text).toContain('… (10011 characters in all)');
      expect(isWellFormed(text)).toBe(true);
    });
  });
});

describe('small words', () => {
  it('ids are lower-case UUIDs', () => {
    expect(isId('018f3b1e-7c3a-7b2e-9f10-0a1b2c3d4e5f')).toBe(true);
    expect(isId('018F3B1E-7C3A-7B2E-9F10-0A1B2C3D4E5F')).toBe(false);
    expect(isId('018f3b1e-7c3a-7b2e-9f10-0a1b2c3d4e5f\n')).toBe(false);
  });

  it('usages add up', () => {
    expect(addUsage(NO_USAGE, { inputTokens: 1, outputTokens: 2 })).toEqual({ inputTokens: 1, outputTokens: 2 });
  });

  it('an aborted signal says why', () => {
    const controller = new AbortController();
    expect(stopKindOf(controller.signal)).toBeUndefined();
    controller.abort(new RunStopped('lease_lost'));
    expect(stopKindOf(controller.signal)).toBe('lease_lost');
    expect(stopKindOf(AbortSignal.abort())).toBe('cancel');
  });
});

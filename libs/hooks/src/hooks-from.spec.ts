import { isAppError, type JsonObject, type LoopView } from '@codedock/domain';
import type { Extension, ExtensionContext } from './extension.js';
import { Abort, Proceed, SKIPPED_TEXT, Skip } from './gates.js';
import { failedHookOf } from './hook-failure.js';
import { hooksFrom } from './hooks-from.js';
import { testCall } from './testing/gate-call.js';

function loop() {
  const emitted: unknown[] = [];
  let metadata: JsonObject = { kept: true };
  const view: LoopView = {
    run: { id: 'r', sessionId: 's', tenantId: 't', attempt: 1 },
    turn: { id: 'u', iteration: 2 },
    iteration: 2,
    messages: [],
    usage: { inputTokens: 1, outputTokens: 2 },
    get metadata() {
      return metadata;
    },
    setMetadata: (next) => {
      metadata = next;
    },
    emit: (...event) => void emitted.push(event),
  };
  return { view, emitted, metadata: () => metadata };
}

const ask = (extension: Omit<Extension, 'name'>, state = loop()) => {
  const { hooks } = hooksFrom({ name: 'tiny', ...extension });
  return { hooks, call: testCall({ loop: state.view }).call, state };
};
const toolEvent = {
  call: { id: 'c', name: 'ping', arguments: { a: 1 } },
  tool: { requiresApproval: false, effect: 'pure' },
} as const;
const context = { systemPrompt: 's', messages: [] };

describe('hooksFrom', () => {
  it('fills only the hooks an extension implements', () => {
    expect(hooksFrom()).toEqual({ hooks: {}, tools: [] });
    const { hooks } = hooksFrom({ name: 'a', onStart: () => undefined }, { name: 'b', onEnd: () => undefined });
    expect(Object.keys(hooks).sort()).toEqual(['beforeRunStart', 'onRunEnd']);
  });

  it('gives the tools of all extensions in order', () => {
    const tool = (name: string) => ({
      definition: {
        name,
        description: '',
        parameters: {},
        requiresApproval: false,
        effect: 'pure' as const,
        timeoutMs: 1,
      },
      execute: () => ({ kind: 'result' as const, result: { success: true, output: name }, source: 'tool' as const }),
    });
    const { tools } = hooksFrom({ name: 'a', tools: [tool('x')] }, { name: 'b' }, { name: 'c', tools: [tool('y')] });
    expect(tools.map(({ definition }) => definition.name)).toEqual(['x', 'y']);
  });

  it('shows state, keeps metadata in the run and emits in its own name', async () => {
    let seen: ExtensionContext['state'] | undefined;
    const { hooks, call, state } = ask({
      onStart({ state: current, metadata, emit }) {
        seen = current;
        metadata.set('count', 1);
        metadata.delete('kept');
        metadata.set('twice', metadata.get('count') ?? null);
        emit('ready', { at: 'start' });
      },
    });
    expect(await hooks.beforeRunStart?.({ systemPrompt: '', hidden: [] }, call)).toEqual({ kind: 'continue' });
    expect(seen).toEqual({
      run: { id: 'r', sessionId: 's', tenantId: 't', attempt: 1 },
      turn: { id: 'u', iteration: 2 },
      iteration: 2,
      messages: [],
      usage: { inputTokens: 1, outputTokens: 2 },
    });
    expect(state.metadata()).toEqual({ count: 1, twice: 1 });
    expect(state.emitted).toEqual([['tiny', 'ready', { at: 'start' }]]);
  });

  it.each([
    ['nothing', undefined, { kind: 'proceed' }],
    ['Proceed', Proceed, { kind: 'proceed' }],
    ['Skip(result)', Skip({ ok: 1 }), { kind: 'skip', by: 'tiny', result: { ok: 1 } }],
    ['Skip()', Skip(), { kind: 'skip', by: 'tiny', result: SKIPPED_TEXT }],
    ['an empty skip', { kind: 'skip', result: '' }, { kind: 'skip', by: 'tiny', result: SKIPPED_TEXT }],
    ['Abort', Abort, { kind: 'abort', by: 'tiny', reason: Abort.reason }],
  ] as const)('onToolStart answers %s', async (_, answer, expected) => {
    const { hooks, call } = ask({ onToolStart: () => answer });
    expect(await hooks.beforeToolCall?.(toolEvent, call)).toEqual(expected);
  });

  it('onModelStart changes messages or stops, onLoop and onModelEnd stop', async () => {
    const stop = { kind: 'stop', reason: 'enough' } as const;
    const repaired = ask({ onModelStart: () => ({ messages: [] }) });
    expect(await repaired.hooks.transformContext?.(context, repaired.call)).toEqual({ kind: 'reply', messages: [] });
    const silent = ask({ onModelStart: () => undefined });
    expect(await silent.hooks.transformContext?.(context, silent.call)).toEqual({ kind: 'reply' });
    const stopping = ask({ onModelStart: () => stop, onLoop: () => stop, onModelEnd: () => stop });
    expect(await stopping.hooks.transformContext?.(context, stopping.call)).toEqual(stop);
    expect(await stopping.hooks.onLoop?.({} as never, stopping.call)).toEqual(stop);
    expect(await stopping.hooks.afterModelCall?.({} as never, stopping.call)).toEqual(stop);
  });

  it('onToolEnd replaces fields of the result and sees what an earlier extension made of it', async () => {
    const { hooks } = hooksFrom(
      { name: 'a', onToolEnd: (_, __, result) => ({ output: `${String(result.output)}a` }) },
      { name: 'b', onToolEnd: (_, __, result) => ({ output: `${String(result.output)}b`, success: false }) },
    );
    const { call } = testCall({ loop: loop().view });
    const event = { call: toolEvent.call, result: { success: true, output: 'x' }, n: 1 };
    expect(await hooks.afterToolCall?.(event, call)).toEqual({ kind: 'reply', output: 'xab', success: false });
  });

  it('onEnd is told even where no loop ran', async () => {
    const ends: unknown[] = [];
    const { hooks } = hooksFrom({ name: 'a', onEnd: (end, context) => void ends.push([end.status, context]) });
    const event = { runId: 'r', sessionId: 's', status: 'cancelled', stopReason: 'cancelled', metadata: {} };
    await hooks.onRunEnd?.(event, testCall().call);
    expect(ends).toEqual([['cancelled', undefined]]);
  });

  it('names the extension that throws', async () => {
    const { hooks } = hooksFrom(
      { name: 'good', onLoop: () => undefined },
      {
        name: 'bad',
        onLoop: () => {
          throw new Error('boom');
        },
      },
    );
    const error = await Promise.resolve(hooks.onLoop?.({} as never, testCall({ loop: loop().view }).call)).catch(
      (thrown: unknown) => thrown,
    );
    expect(isAppError(error, 'hook_error')).toBe(true);
    expect(failedHookOf(error)).toBe('bad');
  });
});

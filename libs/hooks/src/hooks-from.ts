import type { GateCall, JsonObject, JsonValue, LoopView } from '@codedock/domain';
import { chain } from './chain.js';
import type { Extension, ExtensionContext, ExtensionTool, MetadataBag } from './extension.js';
import { type GateHook, type Hooks, Proceed, Skip } from './gates.js';
import { named } from './hook-failure.js';

/**
 * Hooks and tools of small extensions, in argument order. An extension's callbacks see the run through the loop's view,
 * so these hooks work only where the loop asks them (in the runner).
 */
export function hooksFrom(...extensions: readonly Extension[]): {
  readonly hooks: Hooks;
  readonly tools: readonly ExtensionTool[];
} {
  return {
    hooks: extensions.map((extension) => named(extension.name, hooksOf(extension))).reduce<Hooks>(chain, {}),
    tools: extensions.flatMap((extension) => extension.tools ?? []),
  };
}

function hooksOf(extension: Extension): Hooks {
  const contextOf = (call: GateCall) => extensionContext(extension.name, loopOf(call), call.signal);
  const { onStart, onLoop, onModelStart, onModelEnd, onToolEnd, onEnd } = boundTo(extension);
  return {
    ...(onStart && {
      beforeRunStart: async (_event, call) => {
        await onStart(contextOf(call));
        return { kind: 'continue' };
      },
    }),
    ...(onLoop && {
      onLoop: async (_event, call) => (await onLoop(contextOf(call))) ?? { kind: 'continue' },
    }),
    ...(onModelStart && {
      transformContext: async (event, call) => {
        const answer = await onModelStart(contextOf(call), event);
        if (!answer) return { kind: 'reply' };
        return 'kind' in answer ? answer : { kind: 'reply', messages: answer.messages };
      },
    }),
    ...(onModelEnd && {
      afterModelCall: async (event, call) => (await onModelEnd(contextOf(call), event)) ?? { kind: 'continue' },
    }),
    ...(extension.onToolStart && { beforeToolCall: toolStart(extension, contextOf) }),
    ...(onToolEnd && {
      afterToolCall: async (event, call) => {
        const changes = (await onToolEnd(contextOf(call), event.call, event.result)) ?? {};
        return { ...changes, kind: 'reply' };
      },
    }),
    ...(onEnd && {
      onRunEnd: (event, call) => onEnd(event, call.loop === undefined ? undefined : contextOf(call)),
    }),
  };
}

function boundTo(extension: Extension) {
  return {
    onStart: extension.onStart?.bind(extension),
    onLoop: extension.onLoop?.bind(extension),
    onModelStart: extension.onModelStart?.bind(extension),
    onModelEnd: extension.onModelEnd?.bind(extension),
    onToolEnd: extension.onToolEnd?.bind(extension),
    onEnd: extension.onEnd?.bind(extension),
  };
}

function toolStart(extension: Extension, contextOf: (call: GateCall) => ExtensionContext): GateHook<'beforeToolCall'> {
  return async (event, call) => {
    const answer = (await extension.onToolStart?.(contextOf(call), event.call)) ?? Proceed;
    if (answer.kind === 'proceed') return answer;
    if (answer.kind === 'skip') return { by: extension.name, ...Skip(answer.result) };
    return { by: extension.name, ...answer };
  };
}

function loopOf(call: GateCall): LoopView {
  if (call.loop === undefined) throw new TypeError('an extension was asked outside the loop');
  return call.loop;
}

function extensionContext(name: string, loop: LoopView, signal: AbortSignal): ExtensionContext {
  return {
    state: {
      run: loop.run,
      iteration: loop.iteration,
      messages: loop.messages,
      usage: loop.usage,
      ...(loop.turn === undefined ? {} : { turn: loop.turn }),
    },
    metadata: metadataBag(loop),
    signal,
    emit: (event, payload) => loop.emit(name, event, payload),
  };
}

function metadataBag(loop: LoopView): MetadataBag {
  const without = (key: string): [string, JsonValue][] =>
    Object.entries(loop.metadata).filter(([other]) => other !== key);
  return {
    get: (key) => (Object.hasOwn(loop.metadata, key) ? loop.metadata[key] : undefined),
    set: (key, value) => loop.setMetadata(Object.fromEntries([...without(key), [key, value]])),
    delete: (key) => loop.setMetadata(Object.fromEntries(without(key))),
    all: (): JsonObject => loop.metadata,
  };
}

#!/usr/bin/env node
/** The test plugin: one program for all modes. The line before it in the executable names the plugin and its mode. */
import { serveUnchecked } from '@codedock/plugin-sdk/testing';
import { behaviourOf, countQuestion, startOf } from './behaviour.js';
import { misanswer } from './misanswer.js';
import type { PluginMode } from './mode.js';

interface Told {
  readonly name: string;
  readonly mode: PluginMode;
}

const { name, mode } = (globalThis as unknown as { readonly testPlugin: Told }).testPlugin;
const stays = mode.mode === 'ignore-shutdown' || mode.mode === 'hang-at-shutdown';

if (startOf(mode) === 'serve') {
  serveUnchecked(
    { name, version: '1.0.0', ...behaviourOf(mode) },
    (services) => ({
      ...services,
      onEvent: (call, callback) => {
        const { type, payload } = call.request;
        countQuestion(mode, type, {
          ...call.request,
          payload: payload.toString('utf8'),
          context: call.request.context.toString('utf8'),
        });
        services.onEvent(call, (error, answer, ...rest) =>
          callback(error, answer ? misanswer(mode, answer as typeof call.request, payload) : answer, ...rest),
        );
      },
    }),
    {
      ...(stays ? { onShutdown: () => undefined } : {}),
      ...(mode.mode === 'hang-at-shutdown' ? { answersShutdown: false } : {}),
    },
  );
}

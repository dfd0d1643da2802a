import { writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { plugin } from '@codedock/proto';
import { type CompiledPlugin, compilePlugin } from '../compiled-plugin.js';
import { type HostEnvironment, readHostEnvironment } from '../config/host-environment.js';
import type { PluginDefinition } from '../plugin-definition.js';
import { closeTracing, openTracing } from '../telemetry/trace-context.js';
import { printed } from './claim-output.js';
import { listen } from './listen.js';
import { log } from './log.js';
import { ParentWatch } from './parent-watch.js';
import { pluginServices } from './plugin-services.js';
import { StackTraces } from './stack-trace.js';

/** How long an answer to Shutdown has to leave the process. */
const flushMs = 20;
/** How long the spans of the last answers have to reach their collector. */
const spansMs = 1_000;

/**
 * Serves a plugin to the host that started this process, until the host ends it or dies. Call it once, last. Started by
 * hand the process says what it is and exits with 1.
 */
export function serve(definition: PluginDefinition): void {
  serveWith(definition, (services) => services);
}

/** What a host's own tests put in place of a well-behaved plugin's services. */
export type ReplaceServices = (services: plugin.PluginServer, compiled: CompiledPlugin) => plugin.PluginServer;

/** How a misbehaving plugin takes Shutdown. */
export interface ShutdownBehaviour {
  /** In place of ending the process. */
  readonly onShutdown?: () => void;
  /** False = the call is never answered. */
  readonly answersShutdown?: boolean;
}

/** As `serve`, with services the typed interface would not allow. */
export function serveWith(
  definition: PluginDefinition,
  replace: ReplaceServices,
  behaviour: ShutdownBehaviour = {},
): void {
  const environment = readHostEnvironment();
  const stacks = new StackTraces(process.argv[1]);
  if (!environment.startedByHost) {
    writeSync(2, startedByHandMessage(definition));
    process.exit(1);
  }
  process.on('SIGINT', () => undefined);
  process.on('SIGTERM', () => process.exit(143));
  process.on('uncaughtException', (error) =>
    endWith(1, `the plugin ended by an error nobody caught: ${error.message}`, stacks.of(error)),
  );
  run(definition, environment, stacks, replace, behaviour).catch((error: Error) => {
    endWith(1, `the plugin cannot start: ${error.message}`, stacks.of(error));
  });
}

async function run(
  definition: PluginDefinition,
  environment: HostEnvironment,
  stacks: StackTraces,
  replace: ReplaceServices,
  { onShutdown = endSoon, answersShutdown = true }: ShutdownBehaviour,
): Promise<void> {
  const compiled = compilePlugin(definition);
  for (const item of environment.unreadableVersions)
    log.warn('an item of PLUGIN_PROTOCOL_VERSIONS is no number', { item });
  await openTracing(definition);
  const watch = new ParentWatch((reason) => endWith(0, `the plugin ends: ${reason}`));
  const listening = await listen({
    environment,
    printed,
    services: (dialHost) =>
      replace(pluginServices(compiled, { dialHost, stackOf: (error) => stacks.of(error) }), compiled),
    onShutdown: (answer) => {
      if (answersShutdown) answer();
      onShutdown();
    },
    onHostLost: () => watch.connectionLost(),
  });
  process.on('exit', () => listening.removeSocket());
  writeHandshake(`${listening.handshake}\n`);
}

function endSoon(): void {
  void Promise.all([delay(flushMs), closeTracing(spansMs)]).then(() => process.exit(0));
}

// Synchronous and on the descriptor itself: the plugin's own code never writes there.
function writeHandshake(line: string): void {
  const bytes = Buffer.from(line);
  for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at);
}

function endWith(code: number, message: string, stack?: string): never {
  log[code === 0 ? 'debug' : 'error'](message, stack === undefined ? {} : { stack });
  process.exit(code);
}

function startedByHandMessage({ name, version }: PluginDefinition): string {
  return [
    `This is the CodeDock plugin ${name} ${version}. It is started by the plugin-host, not by hand.`,
    'Put its folder (the executable and plugin.json) into the folder CODEDOCK_PLUGIN_DIR names.',
    'To try it without a host, use testPlugin of @codedock/plugin-sdk/testing.',
    '',
  ].join('\n');
}

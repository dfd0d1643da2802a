import type { JsonValue } from '@codedock/domain';
import type { GateDecision, InputEvent, ToolCallEvent } from '@codedock/hooks';
import { connectPluginHosts, type PluginHosts } from '../src/client/connect.js';
import type { PluginHostsOptions } from '../src/client/options.js';
import { GateHost, snapshotWith, until } from './gate-host.js';
import { type OpenedCall, opened } from './opened-call.js';

const closing: (() => Promise<void> | void)[] = [];
// The last opened goes first: a client is closed before the hosts that it would look for again.
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Starts a host, which is killed when the test ends. */
export async function started(host: GateHost, port = 0): Promise<GateHost> {
  await host.start(port);
  closing.push(() => host.kill());
  return host;
}

/** A started host with this snapshot. */
export function hostWith(...snapshot: Parameters<typeof snapshotWith>): Promise<GateHost> {
  return started(new GateHost(snapshotWith(...snapshot)));
}

/** A client of these addresses, which is closed when the test ends. */
export function connected(options: Partial<PluginHostsOptions> & { urls: readonly string[] }): PluginHosts {
  const hosts = connectPluginHosts({ gateTimeoutMs: 10_000, ...options });
  closing.push(() => hosts.close());
  return hosts;
}

/** A client that is ready, and watches every one of these hosts. */
export async function readyWith(
  hosts: readonly GateHost[],
  options: Partial<PluginHostsOptions> = {},
): Promise<PluginHosts> {
  const bridge = connected({ urls: hosts.map(({ url }) => url), ...options });
  await until(() => bridge.readiness().ready && hosts.every(({ watching }) => watching > 0), 'ready');
  return bridge;
}

export const input: InputEvent = { content: 'hello' };
export const toolCall: ToolCallEvent = {
  call: { id: 'c1', name: 'shell', arguments: { cmd: 'ls' } },
  tool: { requiresApproval: false, effect: 'effectful' },
};

export const askInput = (bridge: PluginHosts, call: OpenedCall = opened()) =>
  Promise.resolve(bridge.hooks().beforeInput?.(input, call) as GateDecision<'beforeInput'>);
export const askTool = (bridge: PluginHosts, call: OpenedCall = opened()) =>
  Promise.resolve(bridge.hooks().beforeToolCall?.(toolCall, call) as GateDecision<'beforeToolCall'>);
export const askContext = (bridge: PluginHosts, call: OpenedCall = opened()) =>
  Promise.resolve(
    bridge.hooks().transformContext?.({ systemPrompt: 'p', messages: [] }, call) as GateDecision<'transformContext'>,
  );

/** A value as it travels. */
export const json = (value: JsonValue) => Buffer.from(JSON.stringify(value));
/** What the call's records tell: `<hook>:<outcome>`. */
export const outcomes = (call: OpenedCall) => call.records.map(({ hook, outcome }) => `${hook}:${outcome}`);

import type { Logger } from 'pino';
import { hostEnvironment, type PluginHostConfig, readPluginHostConfig } from '../src/config.js';
import { PluginHost } from '../src/plugin-host.js';
import { type FakeGateway, startFakeGateway } from './fake-gateway.js';

export const internalToken = 'a-token-of-this-test-with-32-characters';

/** A plugin-host without its listener, and a gateway for it. */
export interface TestHost {
  readonly host: PluginHost;
  readonly gateway: FakeGateway;
  /** Waits until every required plugin is up. */
  ready(): Promise<void>;
  close(): Promise<void>;
}

/** Configuration for a host on the given plugin root. */
export function testConfig(
  root: string,
  gateway: FakeGateway,
  variables: Record<string, string> = {},
): PluginHostConfig {
  return readPluginHostConfig({
    CODEDOCK_PLUGIN_DIR: root,
    CODEDOCK_HOST_API_URL: gateway.target,
    CODEDOCK_INTERNAL_TOKEN: internalToken,
    ...variables,
  });
}

/** `environment`: what the host's own environment holds beside PATH, for plugins to get or not. */
export async function startTestHost(
  root: string,
  log: Logger,
  variables: Record<string, string> = {},
  environment: Record<string, string> = {},
): Promise<TestHost> {
  const gateway = await startFakeGateway();
  const host = new PluginHost(testConfig(root, gateway, variables), log, {
    PATH: hostEnvironment['PATH'],
    ...environment,
  });
  await host.start();
  return {
    host,
    gateway,
    ready: () =>
      until(
        () => host.ready,
        () => host.snapshot().reason,
      ),
    async close() {
      await host.drain(1_000);
      gateway.close();
    },
  };
}

/** Waits for a condition; fails with what `describe` says after 10 s. */
export async function until(
  condition: () => boolean,
  describe: () => string = () => 'the condition did not come true',
): Promise<void> {
  const deadline = Date.now() + 10_000;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`waited 10 s: ${describe()}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

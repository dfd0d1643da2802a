import path from 'node:path';
import { connectPluginHosts, type PluginHosts } from '@codedock/plugin-bridge';
import { eventually, freePort, repositoryRoot, startProcess, type TestProcess } from '@codedock/testkit';
import { startHostApi } from '../bench/host-api.js';

const TOKEN = 'token-of-a-matrix-on-loopback-only';

/** A plugin-host process with a connection to it. */
export interface MatrixHost {
  readonly process: TestProcess;
  readonly hosts: PluginHosts;
  /** What the host says of a plugin. @throws Error when it does not know it. */
  statusOf(name: string): Promise<{ readonly state: string; readonly pid: number; readonly generation: number }>;
  close(): Promise<void>;
}

/** Starts the built plugin-host on a root and waits until every plugin answers. */
export async function startMatrixHost(pluginRoot: string): Promise<MatrixHost> {
  const hostApi = await startHostApi(TOKEN);
  const [gatePort, healthPort] = [await freePort(), await freePort()];
  const host = await startProcess({
    name: 'plugin-host',
    command: process.execPath,
    args: [path.join(repositoryRoot(), 'apps/plugin-host/dist/main.js')],
    ready: `http://127.0.0.1:${healthPort}/readyz`,
    env: {
      CODEDOCK_PLUGIN_DIR: pluginRoot,
      PLUGIN_HOST_LISTEN: `127.0.0.1:${gatePort}`,
      CODEDOCK_PLUGIN_HOST_HEALTH_LISTEN: `127.0.0.1:${healthPort}`,
      CODEDOCK_HOST_API_URL: hostApi.address,
      CODEDOCK_INTERNAL_TOKEN: TOKEN,
      CODEDOCK_LOG_LEVEL: 'fatal',
    },
  });
  const hosts = connectPluginHosts({ urls: [`127.0.0.1:${gatePort}`], token: TOKEN });
  await eventually(() => hosts.readiness().ready, { what: 'the plugin chain' });
  return {
    process: host,
    hosts,
    async statusOf(name) {
      const [answer] = await hosts.plugins.list();
      const status = answer?.ok === true ? answer.value.find((plugin) => plugin.name === name) : undefined;
      if (status === undefined) throw new Error(`the plugin-host lists no plugin ${name}`);
      return status;
    },
    async close() {
      await hosts.close();
      await host.stop();
      await hostApi.close();
    },
  };
}

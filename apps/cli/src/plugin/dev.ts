import { basename } from 'node:path';
import { type ApiClient, ApiFailure } from '../api-client.js';
import { buildPlugin } from './build.js';
import { type Installed, installPlugin } from './install.js';
import { changed, fingerprint } from './watch.js';

/** How one turn of building and loading ended. */
export interface Loaded {
  readonly plugin: string;
  readonly ready: boolean;
  /** What the author is told: state, or the reason of the build or the host. */
  readonly text: string;
}

/** How a plugin is developed. */
export interface DevOptions {
  readonly client: ApiClient;
  /** A plugin root of the installation behind the client. */
  readonly root: string;
  /** Build and load once instead of watching; what was installed stays. */
  readonly once: boolean;
  /** Ends watching. */
  readonly signal: AbortSignal;
  onLoaded(loaded: Loaded): void;
}

interface Steered {
  readonly replicas: readonly {
    readonly done: boolean;
    readonly state?: string;
    readonly generation?: number;
    readonly reason?: string;
  }[];
}
interface Listed {
  readonly items: readonly { readonly name: string; readonly version?: string }[];
}

/**
 * Builds a plugin, puts it into a root of a running installation and reloads it there, again after every change. What does
 * not build or come up is told, and the former one keeps answering. At the end the plugin is taken out and its copy
 * removed. Answers how the last turn ended.
 */
export async function developPlugin(folder: string, options: DevOptions): Promise<Loaded> {
  const { client, root, once, signal, onLoaded } = options;
  const name = basename(folder);
  let installed: Installed | undefined;
  try {
    for (;;) {
      const seen = await fingerprint(folder);
      const loaded = await turn(async () => {
        await buildPlugin(folder);
        if (installed === undefined) installed = await installPlugin(folder, root);
        else await installed.refresh();
        return reload(client, name);
      }, name);
      onLoaded(loaded);
      if (once) return loaded;
      if ((await changed(folder, seen, signal)) === undefined) return loaded;
    }
  } finally {
    if (!once) await takeOut(client, name, installed);
  }
}

async function turn(act: () => Promise<Loaded>, plugin: string): Promise<Loaded> {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const refused = error instanceof ApiFailure && error.code === 'plugin_refused';
    return { plugin, ready: false, text: refused ? `refused: ${error.message}` : error.message };
  }
}

async function reload(client: ApiClient, plugin: string): Promise<Loaded> {
  const path = `/v1/plugins/${encodeURIComponent(plugin)}/reload`;
  const { replicas } = await client.call<Steered>('POST', path, { reason: 'codedock plugin dev' });
  const failed = replicas.find(({ done, state }) => !done || state !== 'ready');
  if (failed !== undefined)
    return { plugin, ready: false, text: `${failed.state ?? 'refused'}: ${failed.reason ?? 'no reason given'}` };
  const { items } = await client.call<Listed>('GET', '/v1/plugins');
  const version = items.find(({ name }) => name === plugin)?.version ?? 'unknown';
  return { plugin, ready: true, text: `ready, version ${version}, generation ${replicas[0]?.generation ?? 1}` };
}

async function takeOut(client: ApiClient, plugin: string, installed: Installed | undefined): Promise<void> {
  if (installed === undefined) return;
  const path = `/v1/plugins/${encodeURIComponent(plugin)}/stop`;
  // A plugin that never came up is not known, and an installation that has ended has nothing to stop.
  await client.call('POST', path, { reason: 'codedock plugin dev ends' }).catch(() => undefined);
  await installed.remove();
}

import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { root } from '../workspace/root.mjs';
import { startDatabase } from './database.mjs';
import { demonstrate } from './demonstration.mjs';
import { firstKey, installationSecrets } from './installation.mjs';
import { say } from './output.mjs';
import { npmGone } from './parent.mjs';
import { pluginRoots } from './plugin-root.mjs';
import { startServices } from './services.mjs';
import { startTraces } from './traces.mjs';
import { openingLines } from './welcome.mjs';

/**
 * Runs the embedded profile until it is interrupted, or – with `once` – until the demonstration is over.
 * @returns the exit code.
 */
export async function start({ once, demonstration, traces }) {
  const folder = resolve(root, process.env.CODEDOCK_DATA_DIR || '.codedock');
  await mkdir(folder, { recursive: true, mode: 0o700 }).catch((error) => {
    throw new Error(`CODEDOCK_DATA_DIR is "${folder}", which cannot be a folder (${error.code}). Name another one.`);
  });
  const stops = [];
  const stopAll = async () => {
    for (const stop of stops.splice(0).reverse()) await stop();
  };
  const interruption = new AbortController();
  const { signal } = interruption;
  const interrupted = new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve('interrupted'));
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(name, () => interruption.abort(new Interrupted()));
    npmGone().then(() => interruption.abort(new Interrupted()));
  });
  const aborted = interrupted.then(() => {
    throw signal.reason;
  });
  aborted.catch(() => {});

  try {
    const running = await bringUp(folder, stops, { demonstration, traces }, signal);
    let complete = true;
    if (demonstration) complete = (await Promise.race([demonstrate(running), aborted])) ?? !once;
    if (once) return complete ? 0 : 1;
    say(openingLines(running));
    const ended = await Promise.race([interrupted, running.services.anyEnded]);
    if (ended !== 'interrupted') {
      say(`${ended.name} ended with ${ended.status}; stopping the rest.`);
      return 1;
    }
    return complete ? 0 : 1;
  } catch (error) {
    if (error instanceof Interrupted) return 130;
    throw error;
  } finally {
    say('stopping …');
    await stopAll();
  }
}

class Interrupted extends Error {}

// Interrupted half-way it goes no further; what it has started by then is in `stops`.
async function bringUp(folder, stops, { demonstration, traces }, signal) {
  const startedAt = performance.now();
  const database = await startDatabase(folder);
  stops.push(database.stop);
  signal.throwIfAborted();
  const secrets = await installationSecrets(folder);
  const key = await firstKey(folder, database.url);
  const plugins = await pluginRoots(folder, { demonstration });
  const receiver = traces ? await startTraces(folder) : undefined;
  if (receiver !== undefined) stops.push(receiver.stop);
  signal.throwIfAborted();
  const services = startServices({ folder, database, secrets, plugins, telemetry: receiver?.env });
  stops.push(services.stop);
  const { url } = await services.ready(signal);
  // For the `codedock` command, beside the key.
  await writeFile(join(folder, 'url'), `${url}\n`);
  say(`ready in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  return { url, key, database, plugins, services };
}

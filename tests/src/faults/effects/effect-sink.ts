import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { eventually, startProcess, temporaryFolder } from '@codedock/testkit';

/** One effect that really happened. */
export interface Effect {
  readonly tool: string;
  readonly callId: string;
  readonly idempotencyKey: string;
  /** Number of the execution, as the tool was told. */
  readonly attempt: number;
  readonly args: Readonly<Record<string, unknown>>;
  /** Clock of the machine, milliseconds. */
  readonly at: number;
}

/** The outside world of the tools, in a process of its own. */
export interface EffectSink {
  /** For the plugin's configuration. */
  readonly url: string;
  /** All effects so far. */
  effects(): Promise<readonly Effect[]>;
  /** Resolves with the effects as soon as `enough` says so. */
  waitFor(
    enough: (effects: readonly Effect[]) => boolean,
    what: string,
    timeoutMs?: number,
  ): Promise<readonly Effect[]>;
  /** Lets a held call answer; without an id, all of them. */
  release(callId?: string): Promise<void>;
  stop(): Promise<void>;
}

/** Starts an effect sink. */
export async function startEffectSink(): Promise<EffectSink> {
  const folder = await temporaryFolder('codedock-effects-');
  const file = path.join(folder.path, 'effects');
  const running = await startProcess({
    name: 'effect-sink',
    command: process.execPath,
    args: [path.join(__dirname, 'effect-sink-process.js'), file],
    ready: /effects at (\S+)/,
  });
  const url = /effects at (\S+)/.exec(running.output())?.[1] ?? '';
  const effects = async (): Promise<readonly Effect[]> => {
    const lines = (await readFile(file, 'utf8')).split('\n');
    // The last one is empty, or not written whole.
    return lines.slice(0, -1).map((line) => JSON.parse(line) as Effect);
  };
  return {
    url,
    effects,
    waitFor: (enough, what, timeoutMs = 30_000) =>
      eventually(
        async () => {
          const all = await effects();
          return enough(all) && { all };
        },
        { timeoutMs, what },
      ).then(({ all }) => all),
    release: async (callId = '*') => {
      const answer = await fetch(`${url}/release/${callId}`, { method: 'POST', headers: { connection: 'close' } });
      await answer.arrayBuffer();
    },
    stop: async () => {
      await running.stop();
      await folder.remove();
    },
  };
}

import { readFileSync } from 'node:fs';
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
  const known: Effect[] = [];
  let read = 0;
  const effects = async (): Promise<readonly Effect[]> => {
    // At once: two who read at the same time must not both add the same lines.
    const text = readFileSync(file, 'utf8').slice(read);
    // What follows the last line break is not written whole.
    const whole = text.slice(0, text.lastIndexOf('\n') + 1);
    if (whole !== '') {
      read += whole.length;
      known.push(
        ...whole
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line) as Effect),
      );
    }
    return known;
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

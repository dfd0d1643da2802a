import { interpretReply, type PortReply } from '@codedock/plugin-bridge';
import { isPort, type Port, type plugin } from '@codedock/proto';
import { envelopeOf } from '../recording/envelope-json.js';
import type { Recorded } from '../recording/recorded.js';
import type { HostedFolder } from './hosted-folder.js';
import { jsonDifferences, shown } from './json-difference.js';

/** How a recorded question is answered now. */
export interface Replayed {
  readonly type: string;
  /** What the recording says; absent where it has no answer to compare with. */
  readonly recorded?: string;
  readonly now: string;
  /** Empty where it answers as recorded. Reasons are no part of the comparison. */
  readonly differences: readonly string[];
}

/** Milliseconds for a question whose recording does not say how long it had. */
const patienceMs = 10_000;

/** Puts a recorded question to a plugin that runs, and compares what the host makes of both answers. */
export async function replayQuestion(hosted: HostedFolder, recorded: Recorded): Promise<Replayed> {
  const { type } = recorded.question;
  const envelope = envelopeOf(recorded.question);
  if (!hosted.manifest.subscriptions.includes(type))
    return { type, now: 'not asked', differences: [`the plugin does not subscribe to ${type}`] };
  if (!isPort(type)) {
    await hosted.notify(envelope, patienceMs);
    return { type, now: 'delivered', differences: [] };
  }
  const then = recorded.answer === undefined ? undefined : read(type, envelope, envelopeOf(recorded.answer));
  const result = await hosted.ask(envelope, patienceMs);
  if (result.kind !== 'answered') {
    const now = result.kind === 'failed' ? `${result.outcome}: ${result.reason}` : result.kind;
    return {
      type,
      ...(then === undefined ? {} : { recorded: said(then) }),
      now,
      differences: [`now it fails: ${now}`],
    };
  }
  const reply = read(type, envelope, result.reply);
  return {
    type,
    ...(then === undefined ? {} : { recorded: said(then) }),
    now: said(reply),
    differences: differencesOf(then, reply),
  };
}

function read(port: Port, { payload, context, chainId }: plugin.Envelope, answer: plugin.Envelope): PortReply {
  return interpretReply(port, { payload, context, chainId }, answer);
}

function said({ outcome, reason, invalid }: PortReply): string {
  const why = invalid ?? reason;
  return why === undefined || why === '' ? outcome : `${outcome}: ${why}`;
}

function differencesOf(then: PortReply | undefined, now: PortReply): string[] {
  if (now.invalid !== undefined) return [`the answer is ${now.outcome}: ${now.invalid}`];
  if (then === undefined) return [];
  const decision = then.outcome === now.outcome ? [] : [`decision: recorded ${then.outcome}, now ${now.outcome}`];
  return [
    ...decision,
    ...jsonDifferences(payloadOf(then), payloadOf(now)).map((one) => `payload ${one}`),
    ...jsonDifferences(then.patch ?? {}, now.patch ?? {}).map((one) => `context ${one}`),
    ...(shown(then.skipResult) === shown(now.skipResult)
      ? []
      : [`skip_result: recorded ${shown(then.skipResult)}, now ${shown(now.skipResult)}`]),
  ];
}

function payloadOf({ payload }: PortReply): unknown {
  return payload.length === 0 ? undefined : JSON.parse(payload.toString('utf8'));
}

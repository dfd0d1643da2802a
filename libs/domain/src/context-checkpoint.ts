import type { Message } from './message.js';

/**
 * A summary that stands for the older part of a session's history in every later model call, of later runs too. The
 * messages it stands for stay stored.
 */
export interface ContextCheckpoint {
  readonly id: string;
  readonly summary: string;
  /** How many stored messages it stands for. */
  readonly messages: number;
  /** RFC 3339, UTC. */
  readonly createdAt: string;
}

/** A new checkpoint, and the oldest message of the session that the model goes on to see as it is. */
export interface NewCheckpoint extends ContextCheckpoint {
  readonly firstKept: string;
}

const OPENING =
  'The conversation so far was longer than fits here. This is a summary of its older part, made from it and as trustworthy as its parts were:';

/**
 * The message that carries a checkpoint to the model. It speaks as the user, never as the system: a summary may hold
 * what tools have answered, and must not gain authority by being summarised.
 */
export function checkpointMessage({ id, summary, createdAt }: ContextCheckpoint, sessionId: string): Message {
  return { id, sessionId, role: 'user', content: { text: `${OPENING}\n\n${summary}` }, eventSeq: 0, createdAt };
}

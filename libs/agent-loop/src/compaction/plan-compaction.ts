import type { Message } from '@codedock/domain';
import { answeredHistory } from '../answered-history.js';
import type { ContextRoom } from './context-room.js';
import { type ContextSize, sizeOfMessage, sizeOfMessages, sum, within } from './context-size.js';
import { excerpt } from './excerpt.js';

/** What a context is planned from. */
export interface ContextParts {
  /** What every model call holds beside the history: system prompt, hidden messages, tools. */
  readonly fixed: ContextSize;
  /** Stored order; the message of a checkpoint, if there is one, first. */
  readonly history: readonly Message[];
  /** Id of the checkpoint whose message opens the history. */
  readonly checkpointId?: string;
  /** The input of this run, which the model sees as it is however long the run is. */
  readonly isOwnInput: (message: Message) => boolean;
}

/** What must become of a context before the next model call. */
export type CompactionPlan =
  | { readonly kind: 'fits' }
  | {
      readonly kind: 'summarise';
      /** What the summary is made from, calls with their results, very long texts cut. */
      readonly older: readonly Message[];
      /** Messages that the summary will stand for, without those that the former one stood for. */
      readonly count: number;
      /** Their size. */
      readonly freed: ContextSize;
      /** Id of the oldest message that stays. */
      readonly firstKept: string;
      /** What stands behind the summary from now on, in stored order: this run's input, and everything from `firstKept`. */
      readonly kept: readonly Message[];
    }
  /** Nothing is left that could be summarised. `largest` takes the most room. */
  | { readonly kind: 'too_large'; readonly size: ContextSize; readonly largest: Message | undefined };

/** Messages that are never torn apart: one, or a reply with the results of its calls. */
interface Group {
  readonly messages: readonly Message[];
  readonly size: ContextSize;
}

/** Below this share of the window a summary is not worth a model call while the context still fits. */
const WORTH_SHARE = 0.1;
/** What the instruction to summarise takes in the call. */
const INSTRUCTION_ROOM: ContextSize = { tokens: 200, bytes: 2_000 };

/**
 * Plans one summary: of the oldest messages, as many as one model call takes, and never of the newest ones, of hidden
 * messages, or of a reply without the results of its calls. A history that needs several is planned anew after each;
 * every plan leaves fewer messages, so that this ends.
 */
export function planCompaction(parts: ContextParts, room: ContextRoom): CompactionPlan {
  const { fixed, history } = parts;
  const answered = answeredHistory(history);
  const size = sum(fixed, sizeOfMessages(answered));
  if (within(size, room.soft)) return { kind: 'fits' };
  const fitsAsItIs = within(size, room.hard);
  const plan = planned(parts, groupsOf(answered), room, fitsAsItIs);
  if (plan !== undefined) return plan;
  return fitsAsItIs ? { kind: 'fits' } : { kind: 'too_large', size, largest: largestOf(answered) };
}

function planned(
  parts: ContextParts,
  groups: readonly Group[],
  room: ContextRoom,
  optional: boolean,
): CompactionPlan | undefined {
  const older = groups.slice(0, firstRecent(groups, room.keep));
  const isNew = ({ messages: [head] }: Group) =>
    head !== undefined && head.id !== parts.checkpointId && !parts.isOwnInput(head);
  const free: ContextSize = {
    tokens: room.hard.tokens - parts.fixed.tokens - INSTRUCTION_ROOM.tokens,
    bytes: room.hard.bytes - parts.fixed.bytes - INSTRUCTION_ROOM.bytes,
  };
  const { taken, shown } = takenForOneCall(older, free, isNew);
  const summarised = taken.filter(isNew);
  const next = groups[taken.length]?.messages[0];
  if (summarised.length === 0 || next === undefined || free.tokens <= 0 || free.bytes <= 0) return undefined;
  const freed = summarised.map(({ size }) => size).reduce(sum, { tokens: 0, bytes: 0 });
  if (optional && freed.tokens < room.hard.tokens * WORTH_SHARE && freed.bytes < room.hard.bytes * WORTH_SHARE) {
    return undefined;
  }
  return {
    kind: 'summarise',
    older: shown,
    count: storedOf(summarised, parts.history),
    freed,
    firstKept: next.id,
    kept: keptFrom(parts, next.id),
  };
}

/** The groups of one summarising call, and what it shows of them: at least one new group, cut if need be. */
function takenForOneCall(
  older: readonly Group[],
  free: ContextSize,
  isNew: (group: Group) => boolean,
): { taken: readonly Group[]; shown: readonly Message[] } {
  const taken: Group[] = [];
  const shown: Message[] = [];
  const each: ContextSize = { tokens: free.tokens / 4, bytes: free.bytes / 4 };
  let used: ContextSize = { tokens: 0, bytes: 0 };
  for (const group of older) {
    let messages = group.messages.map((message) => excerpt(message, each));
    if (!within(sum(used, sizeOfMessages(messages)), free)) {
      if (taken.some(isNew)) break;
      const share = group.messages.length;
      const left = { tokens: (free.tokens - used.tokens) / share, bytes: (free.bytes - used.bytes) / share };
      messages = group.messages.map((message) => excerpt(message, left));
      if (!within(sum(used, sizeOfMessages(messages)), free)) break;
    }
    taken.push(group);
    shown.push(...messages);
    used = sum(used, sizeOfMessages(messages));
  }
  return { taken, shown };
}

/** Index of the oldest group that is kept for being recent; the newest one always is. */
function firstRecent(groups: readonly Group[], keep: ContextSize): number {
  let first = groups.length - 1;
  let used = groups[first]?.size ?? { tokens: 0, bytes: 0 };
  while (first > 0) {
    const group = groups[first - 1];
    if (group === undefined) break;
    used = sum(used, group.size);
    if (!within(used, keep)) break;
    first -= 1;
  }
  return Math.max(0, first);
}

/** Without results of calls that the summary stands for: they are in it. */
function keptFrom({ history, isOwnInput }: ContextParts, firstKept: string): readonly Message[] {
  const from = history.findIndex(({ id }) => id === firstKept);
  const own = history.slice(0, from).filter(isOwnInput);
  return withoutOrphans([...own, ...history.slice(from)]);
}

/** The messages without results whose call is not among them: providers refuse those. */
export function withoutOrphans(messages: readonly Message[]): readonly Message[] {
  const asked = new Set(messages.flatMap(({ toolCalls = [] }) => toolCalls.map(({ id }) => id)));
  return messages.filter(({ content }) => !('callId' in content) || asked.has(content.callId));
}

function groupsOf(answered: readonly Message[]): readonly Group[] {
  const groups: Message[][] = [];
  for (const message of answered) {
    const last = groups.at(-1);
    if ('callId' in message.content && last !== undefined) last.push(message);
    else groups.push([message]);
  }
  return groups.map((messages) => ({ messages, size: sizeOfMessages(messages) }));
}

/** How many of the groups' messages are stored: a result that nobody has is told, and is not. */
function storedOf(groups: readonly Group[], history: readonly Message[]): number {
  const stored = new Set(history.map(({ id }) => id));
  return groups.flatMap(({ messages }) => messages).filter(({ id }) => stored.has(id)).length;
}

function largestOf(messages: readonly Message[]): Message | undefined {
  return messages.reduce<Message | undefined>(
    (largest, message) =>
      largest === undefined || sizeOfMessage(message).bytes > sizeOfMessage(largest).bytes ? message : largest,
    undefined,
  );
}

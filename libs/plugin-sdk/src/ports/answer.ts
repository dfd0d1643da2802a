import type { Port } from '@codedock/proto';
import { type JsonObject, type JsonValue, jsonEqual } from '../json.js';

/** Changes a freshly decoded payload; undefined = nothing differs by value. */
export type PayloadChange = (sent: JsonObject) => JsonObject | undefined;

/** What an answer consists of. */
export interface AnswerParts {
  /** Name of the decision on the wire; empty = go on. */
  readonly type: string;
  readonly reason?: string | undefined;
  readonly change?: PayloadChange | undefined;
  readonly skipResult?: JsonValue | undefined;
}

/** An answer on port `P`, made by a method of that port's input and of no use on another port. */
export class Answer<P extends Port = Port> {
  /** Makes answers of different ports different types. */
  declare protected readonly port: P;

  /** @internal */
  constructor(
    /** @internal */
    readonly parts: AnswerParts,
  ) {}
}

/** Members that differ from those sent are laid over them; undefined when none does. */
export function overlay(sent: JsonObject, members: Readonly<Record<string, unknown>>): JsonObject | undefined {
  const changed = Object.entries(members).filter(
    ([name, value]) => value !== undefined && !jsonEqual(value, sent[name]),
  );
  return changed.length === 0 ? undefined : { ...sent, ...(Object.fromEntries(changed) as JsonObject) };
}

/** As `overlay`, for texts and lists that hosts leave out when they are empty: empty and absent are the same. */
export function overlayTexts(
  sent: JsonObject,
  members: Readonly<Record<string, string | readonly unknown[] | undefined>>,
): JsonObject | undefined {
  const told = Object.entries(members).filter(([name, value]) => value?.length !== 0 || name in sent);
  return overlay(sent, Object.fromEntries(told));
}

/** A change that is worth looking at: none when no member is given, so that a plain `reply()` costs nothing. */
export function ifGiven(changes: object, change: PayloadChange): PayloadChange | undefined {
  return Object.values(changes).some((value) => value !== undefined) ? change : undefined;
}

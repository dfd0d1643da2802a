import type { GateCall, HttpHeaders, JsonObject, JsonValue } from '@codedock/domain';
import type { GateEvent } from '@codedock/hooks';
import type { Port } from '@codedock/proto';
import type { PortGates } from '../ports/port-table.js';
import type { WireMessage } from './message-wire.js';

/** What an answer changed, by port. An absent field is unchanged. */
export interface PortChanges {
  'agent/input': { readonly content?: string; readonly mode?: string };
  'agent/pre-step': { readonly systemPrompt?: string; readonly hidden?: readonly WireMessage[] };
  'agent/request': { readonly systemPrompt?: string; readonly messages?: readonly WireMessage[] };
  /** `headers`: only those that differ. `body`: the raw slice of the answer's text. */
  'llm/stream': { readonly headers?: HttpHeaders; readonly body?: string };
  'tools/pre-execute': { readonly arguments?: JsonValue };
  'tools/post-execute': { readonly output?: JsonValue; readonly error?: string | null; readonly success?: boolean };
}

/** One side of an exchange: the text of a payload and what it parsed to. */
export interface PayloadText {
  readonly text: string;
  readonly value: JsonObject;
}

/** The value that goes on after a change, and the change itself. */
export interface LaidOver<P extends Port> {
  /** JSON text of the whole payload with the change in it. */
  readonly text: string;
  readonly change: PortChanges[P];
}

/** How one gate's event travels as the payload of its port, and what an answer may change in it. */
export interface PortMapping<P extends Port> {
  /** JSON text of the payload: no nulls and no wrong types in typed fields, absent fields left out. */
  encode(event: GateEvent<PortGates[P]>, call: GateCall): string;
  /**
   * The answer laid over what was sent; undefined when it changes nothing by JSON value. Recorded oddities go to `note`.
   * @throws InvalidAnswer when a field of the answer fails its validation.
   */
  layOver(sent: PayloadText, answer: PayloadText, note: (text: string) => void): LaidOver<P> | undefined;
}

import type { JsonValue } from './json.js';

/** Whose words a message holds. */
export type MessageRole = 'user' | 'assistant' | 'tool' | 'system' | 'developer';

/** A tool call as the model proposed it, or as a gate rewrote it. */
export interface MessageToolCall {
  /** The call's id: its idempotency key too. */
  readonly id: string;
  readonly name: string;
  readonly arguments: JsonValue;
  /** The id the provider gave the call, sent back to it with the result. */
  readonly providerCallId?: string;
}

/** Text, or the output of the tool call it answers. */
export type MessageContent = { readonly text: string } | { readonly callId: string; readonly output: JsonValue };

/** One message of a session, or a hidden one of a run. */
export interface Message {
  readonly id: string;
  readonly sessionId: string;
  readonly runId?: string;
  readonly turnId?: string;
  readonly role: MessageRole;
  readonly content: MessageContent;
  readonly toolCalls?: readonly MessageToolCall[];
  readonly attachments?: readonly JsonValue[];
  /** `notice`: shown to people, never part of the model's context. */
  readonly kind?: 'notice';
  /** `seq` of the event that stored it; 0 for hidden and not yet stored messages. */
  readonly eventSeq: number;
  /** RFC 3339, UTC. */
  readonly createdAt: string;
}

/** The text of a message; tool results give their output as JSON text. */
export function textOf(message: Message): string {
  if ('text' in message.content) return message.content.text;
  const { output } = message.content;
  return typeof output === 'string' ? output : JSON.stringify(output);
}

import type { LinkFilter } from './tcp-proxy.js';

/** Length of a message's own length field, bytes. */
const LENGTH = 4;

/** Takes whole messages of the PostgreSQL protocol out of a stream of bytes. */
class Messages {
  #rest: Buffer = Buffer.alloc(0);
  /** The first message of a client has no type. */
  #typed: boolean;

  constructor(typed: boolean) {
    this.#typed = typed;
  }

  /** Type (empty for the first message of a client) and body of every message that is whole now. */
  take(bytes: Buffer): { readonly type: string; readonly body: Buffer }[] {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    const messages: { type: string; body: Buffer }[] = [];
    for (;;) {
      const head = this.#typed ? 1 : 0;
      if (this.#rest.length < head + LENGTH) return messages;
      const end = head + this.#rest.readUInt32BE(head);
      if (this.#rest.length < end) return messages;
      messages.push({
        type: this.#rest.toString('latin1', 0, head),
        body: this.#rest.subarray(head + LENGTH, end),
      });
      this.#rest = this.#rest.subarray(end);
      this.#typed = true;
    }
  }
}

/** Text of the statement that a client's message brings; undefined when it brings none. */
function statementOf(type: string, body: Buffer): string | undefined {
  const [first, second] = body.toString('utf8').split('\0', 2);
  if (type === 'Q') return first;
  return type === 'P' ? second : undefined;
}

/** Says whether the reply to a statement is to be lost; asked once for each. */
export type LoseReply = (statement: string) => boolean;

/**
 * Loses replies of a PostgreSQL server: the statement is executed and committed, and instead of its reply the client sees
 * the end of the connection. A statement that fails is answered as usual. `lost` is told of each reply that is lost.
 * Understands a client that waits for each reply before it sends the next statement.
 */
export function lostReplies(lose: LoseReply, lost: (statement: string) => void): () => LinkFilter {
  return () => {
    const asked = new Messages(false);
    let losing: { readonly statement: string; readonly reply: Messages; readonly held: Buffer[] } | undefined;
    return {
      fromClient(bytes) {
        for (const { type, body } of asked.take(bytes)) {
          const statement = statementOf(type, body);
          if (statement !== undefined && losing === undefined && lose(statement))
            losing = { statement, reply: new Messages(true), held: [] };
        }
      },
      fromServer(bytes) {
        if (losing === undefined) return bytes;
        const { statement, reply, held } = losing;
        held.push(bytes);
        for (const { type, body } of reply.take(bytes)) {
          // An error, or the middle of a transaction: nothing was committed.
          if (type === 'E' || (type === 'Z' && body.toString('latin1') !== 'I')) {
            losing = undefined;
            return Buffer.concat(held);
          }
          // Ready for the next statement: this one is committed.
          if (type === 'Z') {
            lost(statement);
            return 'sever';
          }
        }
        return Buffer.alloc(0);
      },
    };
  };
}

import { type JsonObject, type JsonValue, readObject } from './json.js';

/**
 * The plugins' shared JSON bag of one run. Never reaches the model, a message or a decision. At most 8 KiB encoded in
 * all; an update that makes it larger is dropped by the host and recorded. Name keys `<plugin>.<field>`.
 */
export interface Scratchpad {
  /** The value as it was when the question was asked, or as it was set since. Change it with `set`, not in place. */
  get(key: string): JsonValue | undefined;
  /** Takes effect when the question has been answered. */
  set(key: string, value: JsonValue): void;
  delete(key: string): void;
}

/** The bag of one question. */
export class QuestionScratchpad implements Scratchpad {
  private values: JsonObject | undefined;
  private changed = false;

  constructor(private readonly sent: Uint8Array) {}

  get(key: string): JsonValue | undefined {
    const bag = this.bag();
    return Object.hasOwn(bag, key) ? bag[key] : undefined;
  }

  set(key: string, value: JsonValue): void {
    if (key === '__proto__') throw new TypeError('"__proto__" is no key of the scratchpad');
    this.bag()[key] = value;
    this.changed = true;
  }

  delete(key: string): void {
    delete this.bag()[key];
    this.changed = true;
  }

  /** What to send back: no bytes unless something was set or deleted. */
  encodeChanges(): Buffer {
    return this.changed ? Buffer.from(JSON.stringify(this.bag())) : Buffer.alloc(0);
  }

  private bag(): JsonObject {
    this.values ??= readObject(this.sent, 'the scratchpad');
    return this.values;
  }
}

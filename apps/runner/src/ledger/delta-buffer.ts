import type { Turn } from '@codedock/domain';

/** At most one row per so many milliseconds … */
const INTERVAL_MS = 50;
/** … or per so many bytes. */
export const DELTA_LIMIT_BYTES = 2_048;

/** Collects a reply's deltas. The first one is passed on at once, so that a reader sees the reply begin. */
export class DeltaBuffer {
  readonly #emit: (turn: Turn, text: string) => void;
  #turn: Turn | undefined;
  #text = '';
  #bytes = 0;
  #quiet = true;
  #timer: NodeJS.Timeout | undefined;

  constructor(emit: (turn: Turn, text: string) => void) {
    this.#emit = emit;
  }

  add(turn: Turn, text: string): void {
    this.#turn = turn;
    this.#text += text;
    this.#bytes += Buffer.byteLength(text);
    if (this.#quiet || this.#bytes >= DELTA_LIMIT_BYTES) {
      this.#quiet = false;
      this.flush();
    }
    this.#timer ??= setTimeout(() => this.#tick(), INTERVAL_MS);
  }

  /** Passes on what is held: before any other fact, so that the order stays. */
  flush(): void {
    const { turn, text } = { turn: this.#turn, text: this.#text };
    if (turn === undefined || text === '') return;
    this.#text = '';
    this.#bytes = 0;
    this.#emit(turn, text);
  }

  #tick(): void {
    this.#timer = undefined;
    this.#quiet = this.#text === '';
    if (this.#quiet) return;
    this.flush();
    this.#timer = setTimeout(() => this.#tick(), INTERVAL_MS);
  }

  /** The next delta is a first one again. Drops nothing: flush before. */
  rest(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#quiet = true;
  }
}

/** Most answers remembered at a time. */
const MAX_REMEMBERED = 10_000;

interface Remembered<T> {
  readonly answer: Promise<T>;
  readonly until: number;
}

export interface RememberedAnswersOptions {
  /** Milliseconds for which an answer is used again: how long a change made elsewhere goes unnoticed. */
  readonly keepMs: number;
  readonly now: () => number;
}

/** Answers of the store to questions that come again and again: each is asked at most once per `keepMs`. */
export class RememberedAnswers<T> {
  private readonly remembered = new Map<string, Remembered<T>>();

  constructor(private readonly options: RememberedAnswersOptions) {}

  /** The answer to the question of this name; a failure to answer is told to who waits for it, and not remembered. */
  of(name: string, ask: () => Promise<T>): Promise<T> {
    const now = this.options.now();
    const known = this.remembered.get(name);
    if (known !== undefined && known.until > now) return known.answer;
    if (this.remembered.size >= MAX_REMEMBERED) this.remembered.clear();
    const asked = { answer: ask(), until: now + this.options.keepMs };
    this.remembered.set(name, asked);
    asked.answer.catch(() => {
      if (this.remembered.get(name) === asked) this.remembered.delete(name);
    });
    return asked.answer;
  }

  /** The answer has changed here. */
  forget(name: string): void {
    this.remembered.delete(name);
  }
}

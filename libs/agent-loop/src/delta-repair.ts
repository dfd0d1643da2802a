import { wellFormedText } from '@codedock/domain';

const HIGH = /[\ud800-\udbff]$/;

/** Makes streamed text well-formed piece by piece; a surrogate pair that two pieces share stays whole. */
export class DeltaRepair {
  private held = '';

  /** What can be shown of the text so far; may be empty. */
  next(piece: string): string {
    const text = this.held + piece;
    const cut = HIGH.test(text) ? text.length - 1 : text.length;
    this.held = text.slice(cut);
    return wellFormedText(text.slice(0, cut));
  }

  /** What was held back at the end. */
  rest(): string {
    const { held } = this;
    this.held = '';
    return wellFormedText(held);
  }
}

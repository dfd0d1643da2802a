/** An answer that breaks the port's contract. The message names the field and what is wrong there; it never quotes values. */
export class InvalidAnswer extends Error {
  readonly outcome: 'invalid' | 'oversize';
  constructor(message: string, outcome: 'invalid' | 'oversize' = 'invalid') {
    super(message);
    this.name = 'InvalidAnswer';
    this.outcome = outcome;
  }
}

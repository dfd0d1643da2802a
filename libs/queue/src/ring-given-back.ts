/**
 * Thrown by what answers a ring: it cannot be answered here, and goes back to the queue for another runner. Whoever throws
 * it takes no further rings until it can answer them (`pause`), or would be given the same one again at once.
 */
export class RingGivenBack extends Error {
  override readonly name = 'RingGivenBack';

  constructor(options?: ErrorOptions) {
    super('the ring cannot be answered here', options);
  }
}

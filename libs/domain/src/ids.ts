/** Makes ids: UUIDs, time-ordered (version 7, RFC 9562) so that indexes stay compact. */
export interface IdSource {
  next(): string;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** True for a lower-case UUID in its canonical form; every id of this product is one. */
export function isId(text: string): boolean {
  return UUID.test(text);
}

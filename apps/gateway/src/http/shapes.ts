import type { JsonObject, JsonValue } from '@codedock/domain';
import { z } from 'zod';

/** Largest metadata of a session or run, bytes of its JSON text. */
const MAX_METADATA_BYTES = 16 * 1024;

const jsonValue = z.unknown() as unknown as z.ZodType<JsonValue>;

/** Any JSON value. */
export const json = jsonValue;

/** An id of this product. */
export const id = z.uuid();

/** A point in time: RFC 3339, UTC, database clock. */
export const instant = z.string().meta({ format: 'date-time' });

/** The caller's own words about a session or run: a JSON object of at most 16 KiB. */
export const metadata: z.ZodType<JsonObject> = z
  .record(z.string(), jsonValue)
  .refine((value) => Buffer.byteLength(JSON.stringify(value)) <= MAX_METADATA_BYTES, 'must not be larger than 16 KiB');

const limit = (largest: number, usual: number) =>
  z.coerce.number().int().min(1).max(largest).default(usual).describe(`How many at most, 1–${largest}.`);

/** Fields of every list that is paged from the newest to the oldest. */
export const page = {
  limit: limit(200, 50),
  cursor: id.optional().describe('`nextCursor` of the former page.'),
};

/** Fields of every list that is paged by `seq`. */
export const seqPage = {
  limit: limit(1000, 200),
  after: z.coerce
    .number()
    .int()
    .min(0)
    .max(Number.MAX_SAFE_INTEGER)
    .default(0)
    .describe('Only what has a greater `seq`.'),
};

/** One page of a list. */
export function pageOf<T extends z.ZodType>(item: T) {
  return z.object({ items: z.array(item), nextCursor: id.nullable().describe('Null on the last page.') });
}

/** A page from one item more than was asked for. */
export function toPage<T extends { readonly id: string }>(
  items: readonly T[],
  limit: number,
): { items: readonly T[]; nextCursor: string | null } {
  return toPageBy(items, limit, ({ id }) => id);
}

/** The same, where the next page does not begin after an id. */
export function toPageBy<T>(
  items: readonly T[],
  limit: number,
  cursorOf: (last: T) => string,
): { items: readonly T[]; nextCursor: string | null } {
  const shown = items.slice(0, limit);
  const last = shown.at(-1);
  return { items: shown, nextCursor: last === undefined || items.length <= limit ? null : cursorOf(last) };
}

/** The object without its undefined members, as exact optional properties want it. */
export function defined<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}

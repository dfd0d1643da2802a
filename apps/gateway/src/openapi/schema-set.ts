import { z } from 'zod';

type JsonSchema = Record<string, unknown>;

const DEFS = '#/$defs/';
const COMPONENTS = '#/components/schemas/';

/** The JSON Schema (2020-12) of a zod schema, for what is sent to the API (`input`) or answered by it (`output`). */
export function schemaOf(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
  const { $schema: _, '~standard': __, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as JsonSchema;
  return rest;
}

/** Named schemas of a document, each once; schemas without an id stay inline. */
export class SchemaSet {
  readonly components: Record<string, JsonSchema> = {};

  /** A reference to the schema's component, or the schema itself where it has no id. */
  refer(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
    const { $defs, ...own } = relocated(schemaOf(schema, io)) as JsonSchema & { $defs?: Record<string, JsonSchema> };
    for (const [id, definition] of Object.entries($defs ?? {})) this.components[id] = definition;
    return own;
  }
}

function relocated(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(relocated);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, child]) =>
      key === '$ref' && typeof child === 'string' && child.startsWith(DEFS)
        ? [key, COMPONENTS + child.slice(DEFS.length)]
        : [key, relocated(child)],
    ),
  );
}

import { ERROR_CODES, type ErrorCode } from '@codedock/domain';
import { z } from 'zod';
import type { EndpointSpec } from '../http/endpoint.js';
import { PROBLEM_TYPE } from '../http/problem.js';
import type { Route } from '../http/route-table.js';
import { SchemaSet, schemaOf } from './schema-set.js';

/** Shape of every error answer. */
export const problemSchema = z
  .looseObject({
    type: z.string().describe('urn:codedock:problem:<code>'),
    title: z.string(),
    status: z.int(),
    detail: z.string().describe('What is wrong, where, and the remedy.'),
    code: z.enum(Object.keys(ERROR_CODES) as [ErrorCode, ...ErrorCode[]]).describe('Stable; switch on it.'),
    instance: z.string().describe('Names this request, also in the log.'),
    errors: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  })
  .meta({ id: 'Problem' });

/** Statuses whose answers say when the request may be sent again; of others, single codes. */
const WITH_RETRY_AFTER = new Set([429, 503]);
const CODES_WITH_RETRY_AFTER: ReadonlySet<ErrorCode> = new Set(['idempotency_in_progress']);
const RETRY_AFTER = {
  description: 'Seconds after which it may be sent again.',
  schema: { type: 'integer', minimum: 1 },
};

/** Codes that any declared route may answer. */
const ALWAYS: readonly ErrorCode[] = ['invalid_request', 'store_unavailable', 'shutting_down', 'invariant_broken'];

/** The OpenAPI 3.1 document of the given routes, made from the schemas that validate their requests. */
export function openApiDocument(routes: readonly Route[], version: string): object {
  const schemas = new SchemaSet();
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const path = route.url.replaceAll(/:([A-Za-z]+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route, schemas) };
  }
  schemas.refer(problemSchema, 'output');
  return {
    openapi: '3.1.0',
    info: { title: 'CodeDock', version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    paths,
    components: {
      schemas: schemas.components,
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'An API key of a tenant, with scopes and expiry.' },
      },
    },
  };
}

function operation({ method, url, spec }: Route, schemas: SchemaSet): object {
  return {
    operationId: operationId(method, url),
    summary: spec.summary,
    tags: [spec.tag],
    security: spec.scopes.length === 0 ? [] : [{ key: [...spec.scopes] }],
    parameters: [...pathParameters(url), ...queryParameters(spec), ...headerParameters(spec)],
    ...(spec.body === undefined
      ? {}
      : {
          requestBody: {
            required: !spec.body.safeParse({}).success,
            content: { 'application/json': { schema: schemas.refer(spec.body, 'input') } },
          },
        }),
    responses: { ...successes(spec, schemas), ...problems(spec, url) },
  };
}

function operationId(method: string, url: string): string {
  const words = url
    .split('/')
    .filter((part) => part !== '' && part !== 'v1')
    .map((part) => part.replace(':', 'by_').replaceAll(/[^A-Za-z_]/g, '_'));
  return [method.toLowerCase(), ...words].join('_');
}

function pathParameters(url: string): object[] {
  return [...url.matchAll(/:([A-Za-z]+)/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: name.endsWith('Id') ? { type: 'string', format: 'uuid' } : { type: 'string' },
  }));
}

function queryParameters({ query }: EndpointSpec): object[] {
  if (query === undefined) return [];
  const schema = schemaOf(query, 'input') as { properties?: Record<string, object>; required?: string[] };
  return Object.entries(schema.properties ?? {}).map(([name, property]) => ({
    name,
    in: 'query',
    required: schema.required?.includes(name) ?? false,
    schema: property,
  }));
}

function headerParameters({ idempotent, stream }: EndpointSpec): object[] {
  return [
    ...(idempotent === true
      ? [
          {
            name: 'Idempotency-Key',
            in: 'header',
            required: false,
            schema: { type: 'string', pattern: '^[\\x21-\\x7e]{1,255}$' },
          },
        ]
      : []),
    ...(stream === true
      ? [{ name: 'Last-Event-ID', in: 'header', required: false, schema: { type: 'string', pattern: '^\\d{1,15}$' } }]
      : []),
  ];
}

function successes({ answers }: EndpointSpec, schemas: SchemaSet): Record<string, object> {
  return Object.fromEntries(
    Object.entries(answers).map(([status, answer]) => {
      const mediaType = answer.mediaType ?? (answer.schema === undefined ? undefined : 'application/json');
      const schema = answer.schema === undefined ? { type: 'string' } : schemas.refer(answer.schema, 'output');
      return [
        status,
        {
          description: answer.description,
          ...(mediaType === undefined ? {} : { content: { [mediaType]: { schema } } }),
        },
      ];
    }),
  );
}

function problems(spec: EndpointSpec, url: string): Record<string, object> {
  const codes = new Set<ErrorCode>([...ALWAYS, ...(spec.problems ?? [])]);
  if (spec.scopes.length > 0) codes.add('unauthenticated').add('forbidden').add('rate_limited');
  if (url.includes(':')) codes.add('not_found');
  if (spec.body !== undefined) codes.add('malformed_json').add('too_large').add('unsupported_media_type');
  if (spec.idempotent === true) codes.add('idempotency_mismatch').add('idempotency_in_progress');
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of codes) byStatus.set(ERROR_CODES[code], [...(byStatus.get(ERROR_CODES[code]) ?? []), code]);
  return Object.fromEntries(
    [...byStatus]
      .sort(([a], [b]) => a - b)
      .map(([status, listed]) => [
        String(status),
        {
          description: listed.join(', '),
          ...(WITH_RETRY_AFTER.has(status) || listed.some((code) => CODES_WITH_RETRY_AFTER.has(code))
            ? { headers: { 'Retry-After': RETRY_AFTER } }
            : {}),
          content: { [PROBLEM_TYPE]: { schema: { $ref: '#/components/schemas/Problem' } } },
        },
      ]),
  );
}

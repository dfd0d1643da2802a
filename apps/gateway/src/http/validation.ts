import { AppError, type ErrorDetail, isId, isWellFormed } from '@codedock/domain';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { hygieneFault, pointerToken } from './hygiene.js';

/** Most faults named in one answer. */
const MAX_FAULTS = 20;

const nothing = z.strictObject({});

/**
 * Validates every request of a declared route before its handler: ids in the path (404), then query and body against the
 * route's schemas (422 naming the path). A route without a schema takes no field at all.
 */
export function validateRequests(server: FastifyInstance): void {
  server.addHook('preValidation', async (request: FastifyRequest) => {
    const spec = request.routeOptions.config.endpoint;
    if (spec === undefined) return;
    requireIds(request.params);
    // The parsed query has no prototype; strict schemas read plain objects.
    const query = { ...(request.query as object) };
    request.query = checked(spec.query ?? nothing, clean(query), 'query');
    if (request.method === 'GET') return;
    request.body = checked(spec.body ?? nothing, request.body === undefined ? {} : request.body, 'body');
  });
}

/** Every path parameter named `…Id` is an id of this product, every other one a well-formed name, or nothing can be there. */
function requireIds(params: unknown): void {
  for (const [name, value] of Object.entries(params ?? {})) {
    const text = String(value);
    if (name.endsWith('Id') && !isId(text)) throw notFound(name.slice(0, -2));
    if (!isWellFormed(text)) throw notFound('thing', 'name');
  }
}

/** The one answer for what does not exist and for what belongs to another tenant. */
export function notFound(what: string, by = 'id'): AppError {
  return new AppError('not_found', `There is no ${what} with this ${by}.`);
}

function clean(query: object): object {
  const fault = hygieneFault(query);
  if (fault !== undefined) throw invalid('query', [fault]);
  return query;
}

function checked(schema: z.ZodType, value: unknown, where: 'query' | 'body'): unknown {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw invalid(where, result.error.issues.flatMap(detailsOf).slice(0, MAX_FAULTS));
}

/** A 422 that names the wrong places. */
export function invalid(where: string, errors: readonly ErrorDetail[]): AppError {
  const first = errors[0];
  const place = first === undefined ? '' : `: ${first.path || where} ${first.message}`;
  return new AppError('invalid_request', `The request's ${where} is not valid${place}.`, { errors });
}

function detailsOf(issue: z.core.$ZodIssue): ErrorDetail[] {
  const path = issue.path.map((part) => `/${pointerToken(String(part)).slice(0, 100)}`).join('');
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({
      path: `${path}/${pointerToken(key).slice(0, 100)}`,
      message: 'is not a known field',
    }));
  }
  return [{ path, message: lowered(issue.message) }];
}

function lowered(message: string): string {
  const text = message.endsWith('.') ? message.slice(0, -1) : message;
  return text.charAt(0).toLowerCase() + text.slice(1);
}

import type { ErrorCode, Scope } from '@codedock/domain';
import { applyDecorators, Delete, Get, HttpCode, Post, Put } from '@nestjs/common';
import { RouteConfig } from '@nestjs/platform-fastify';
import type { z } from 'zod';

/** What one answer looks like: a schema, or a media type with words for what is no JSON. */
export interface AnswerSpec {
  readonly description: string;
  readonly schema?: z.ZodType;
  readonly mediaType?: string;
}

/** All there is to know about one route: what guards it, validates it and documents it. */
export interface EndpointSpec {
  readonly summary: string;
  readonly tag: string;
  /** The key needs one of these; empty: no key is asked for. */
  readonly scopes: readonly Scope[];
  /** Changes what all tenants share: the key's tenant must be one that may. */
  readonly installation?: boolean;
  readonly body?: z.ZodType;
  readonly query?: z.ZodType;
  /** Answers by status; the lowest is the handler's default. */
  readonly answers: Readonly<Record<number, AnswerSpec>>;
  /** Error codes beyond those every route has. */
  readonly problems?: readonly ErrorCode[];
  /** The route honours `Idempotency-Key`. */
  readonly idempotent?: boolean;
  /** The route is an event stream and honours `Last-Event-ID`. */
  readonly stream?: boolean;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    endpoint?: EndpointSpec;
  }
}

const METHODS = { GET: Get, POST: Post, PUT: Put, DELETE: Delete } as const;

/**
 * Declares a route. The same record authorises the caller before the body is read, validates body and query before the
 * handler runs, and becomes the route's entry in the OpenAPI document.
 */
export function Endpoint(method: keyof typeof METHODS, path: string, spec: EndpointSpec): MethodDecorator {
  const status = Number(Object.keys(spec.answers)[0] ?? 200);
  return applyDecorators(METHODS[method](path), HttpCode(status), RouteConfig({ endpoint: spec }));
}

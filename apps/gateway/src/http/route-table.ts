import type { FastifyInstance } from 'fastify';
import type { EndpointSpec } from './endpoint.js';

/** One declared route. */
export interface Route {
  readonly method: string;
  /** Fastify's pattern, such as `/v1/runs/:runId`. */
  readonly url: string;
  readonly spec: EndpointSpec;
}

/** Every route of the server, as it is registered. */
export class RouteTable {
  private readonly known: (Route & { readonly pattern: RegExp })[] = [];

  /** Collects the routes that are registered after this call. */
  watch(server: FastifyInstance): void {
    server.addHook('onRoute', (route) => {
      const spec = route.config?.endpoint;
      if (spec === undefined) return;
      for (const method of [route.method].flat()) {
        this.known.push({ method, url: route.url, spec, pattern: patternOf(route.url) });
      }
    });
  }

  get routes(): readonly Route[] {
    return this.known;
  }

  /** Methods that an address has; empty when it has none. */
  methodsOf(path: string): string[] {
    return this.known
      .filter((route) => route.pattern.test(path))
      .map((route) => route.method)
      .sort();
  }
}

function patternOf(url: string): RegExp {
  const parts = url
    .split('/')
    .map((part) => (part.startsWith(':') ? '[^/]+' : part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')));
  return new RegExp(`^${parts.join('/')}$`);
}

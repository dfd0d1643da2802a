import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { table } from './sources.mjs';

// Nest's numbers of methods.
const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH'];

/** Every declared route of the built gateway, by the metadata that guards and validates it. */
export function routeSection(gateway, require) {
  const dist = join(gateway, 'dist');
  const controllers = readdirSync(dist, { recursive: true })
    .filter((file) => file.endsWith('.controller.js') && !file.startsWith('host-api'))
    .sort()
    .flatMap((file) => Object.values(require(join(dist, file))))
    .filter((exported) => typeof exported === 'function' && Reflect.hasMetadata('path', exported));
  const routes = controllers.flatMap(routesOf).sort((a, b) => compare(a.tag, b.tag) || compare(a.path, b.path));
  if (routes.length === 0) throw new Error('The built gateway declares no route.');
  return [
    '## Routes',
    '',
    'A key needs one of the scopes named; a dash means no key. Routes marked * honour `Idempotency-Key`.',
    '',
    ...table(
      ['route', 'scope', 'what it does', 'answers', 'codes of its own'],
      routes.map(({ method, path, spec }) => [
        `\`${method} ${path}\`${spec.idempotent ? ' *' : ''}`,
        spec.scopes.join(' or ') || '–',
        spec.summary,
        Object.keys(spec.answers).join(', '),
        (spec.problems ?? []).map((code) => `\`${code}\``).join(' '),
      ]),
    ),
    '',
  ];
}

function routesOf(controller) {
  const base = Reflect.getMetadata('path', controller);
  return Object.getOwnPropertyNames(controller.prototype).flatMap((name) => {
    const handler = controller.prototype[name];
    const config = typeof handler === 'function' && Reflect.getMetadata('__fastify_route_config__', handler);
    if (!config) return [];
    const spec = config.endpoint;
    const path = `/${[base, Reflect.getMetadata('path', handler)].join('/')}`
      .replaceAll(/\/+/g, '/')
      .replace(/(.)\/$/, '$1')
      .replaceAll(/:(\w+)/g, '{$1}');
    return [{ method: METHODS[Reflect.getMetadata('method', handler)], path, tag: spec.tag, spec }];
  });
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

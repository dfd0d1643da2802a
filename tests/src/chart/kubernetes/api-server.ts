import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parse as parseYaml } from 'yaml';
import { Cluster } from './cluster.js';
import { secretOf } from './protobuf.js';
import { groupVersionOf, RESOURCES, type ResourceKind } from './resources.js';
import { ApplyConflict, type KubeObject, type Writer } from './server-side-apply.js';

/** An API server that helm can talk to. */
export interface ApiServer {
  readonly url: string;
  readonly cluster: Cluster;
  close(): Promise<void>;
}

/** Serves a Kubernetes API in memory: discovery, objects, server-side apply, watches. Says it is version 1.35. */
export async function startApiServer(): Promise<ApiServer> {
  const cluster = new Cluster();
  const writer: Writer = { manager: 'test', operation: 'Update' };
  for (const name of ['default', 'agents']) {
    cluster.update(`v1/namespaces//${name}`, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } }, writer, {
      dryRun: false,
    });
  }
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      try {
        answer(cluster, request, Buffer.concat(chunks), response);
      } catch (error) {
        const conflict = error instanceof ApplyConflict;
        fail(response, conflict ? 409 : 500, conflict ? 'Conflict' : 'InternalError', String((error as Error).message));
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cluster,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function send(response: ServerResponse, status: number, body: unknown): ServerResponse {
  response.writeHead(status, { 'content-type': 'application/json' });
  return response.end(JSON.stringify(body));
}

function fail(
  response: ServerResponse,
  code: number,
  reason: string,
  message: string,
  details?: object,
): ServerResponse {
  return send(response, code, {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    code,
    reason,
    message,
    details,
  });
}

function answer(cluster: Cluster, request: IncomingMessage, body: Buffer, response: ServerResponse): ServerResponse {
  const url = new URL(request.url ?? '/', 'http://api');
  const discovered = discovery(url.pathname);
  if (discovered !== undefined) return send(response, 200, discovered);
  const target = targetOf(url.pathname);
  if (target === undefined) return fail(response, 404, 'NotFound', `the server could not find ${url.pathname}`);
  if (target.subresource === 'log') {
    response.writeHead(200, { 'content-type': 'text/plain' });
    return response.end('a line of the log\n');
  }
  const query = url.searchParams;
  if (request.method === 'GET' && query.get('watch') !== null && query.get('watch') !== 'false') {
    return watch(cluster, target, query, response);
  }
  if (request.method === 'GET') return read(cluster, target, query, response);
  return write(cluster, target, query, request, body, response);
}

function discovery(path: string): object | undefined {
  if (path === '/version') return { major: '1', minor: '35', gitVersion: 'v1.35.0', platform: 'linux/amd64' };
  if (path === '/api') return { kind: 'APIVersions', versions: ['v1'] };
  const groups = [...new Set(RESOURCES.map((one) => groupVersionOf(one)))];
  if (path === '/apis') {
    return {
      kind: 'APIGroupList',
      apiVersion: 'v1',
      groups: groups
        .filter((one) => one.includes('/'))
        .map((groupVersion) => {
          const [name, version] = groupVersion.split('/');
          return { name, versions: [{ groupVersion, version }], preferredVersion: { groupVersion, version } };
        }),
    };
  }
  const pathOf = (groupVersion: string) =>
    groupVersion.includes('/') ? `apis/${groupVersion}` : `api/${groupVersion}`;
  if (path === '/openapi/v3') {
    return {
      paths: Object.fromEntries(
        groups.map((one) => [pathOf(one), { serverRelativeURL: `/openapi/v3/${pathOf(one)}?hash=1` }]),
      ),
    };
  }
  const group = groups.find((one) => path === `/openapi/v3/${pathOf(one)}` || path === `/${pathOf(one)}`);
  if (group === undefined) return undefined;
  const kinds = RESOURCES.filter((one) => groupVersionOf(one) === group);
  return path.startsWith('/openapi/') ? openApi(pathOf(group), kinds) : resourceList(group, kinds);
}

/** Helm leaves the check of fields to a server whose PATCH takes `fieldValidation`. */
function openApi(path: string, kinds: readonly ResourceKind[]): object {
  const paths = kinds.map(({ group, version, kind, plural, namespaced }) => [
    `/${path}/${namespaced ? 'namespaces/{namespace}/' : ''}${plural}/{name}`,
    {
      patch: {
        parameters: [{ name: 'fieldValidation', in: 'query', schema: { type: 'string' } }],
        responses: {},
        'x-kubernetes-action': 'patch',
        'x-kubernetes-group-version-kind': { group, version, kind },
      },
    },
  ]);
  return { openapi: '3.0.0', info: { title: 'Kubernetes', version: '1.35' }, paths: Object.fromEntries(paths) };
}

function resourceList(groupVersion: string, kinds: readonly ResourceKind[]): object {
  return {
    kind: 'APIResourceList',
    apiVersion: 'v1',
    groupVersion,
    resources: kinds.map(({ kind, plural, namespaced }) => ({
      name: plural,
      singularName: kind.toLowerCase(),
      namespaced,
      kind,
      verbs: ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch'],
    })),
  };
}

interface Target {
  readonly resource: ResourceKind;
  /** Begins the keys of all objects that are meant. */
  readonly prefix: string;
  readonly namespace: string;
  /** Absent for a list. */
  readonly name?: string;
  readonly key: (name: string) => string;
  readonly subresource?: string;
}

function targetOf(path: string): Target | undefined {
  const found = /^\/(?:api\/(v1)|apis\/([^/]+\/[^/]+))\/(.+)$/.exec(path);
  let parts = found?.[3]?.split('/') ?? [];
  let namespace = '';
  if (parts[0] === 'namespaces' && parts.length > 2) {
    namespace = parts[1] ?? '';
    parts = parts.slice(2);
  }
  const [plural, name, subresource] = parts;
  const groupVersion = found?.[1] ?? found?.[2];
  const resource = RESOURCES.find((one) => groupVersionOf(one) === groupVersion && one.plural === plural);
  if (resource === undefined) return undefined;
  const base = `${groupVersion}/${plural}/`;
  return {
    resource,
    namespace,
    prefix: namespace === '' ? base : `${base}${namespace}/`,
    key: (one) => `${base}${namespace}/${one}`,
    ...(name === undefined ? {} : { name }),
    ...(subresource === undefined ? {} : { subresource }),
  };
}

function selected(query: URLSearchParams): (object: KubeObject) => boolean {
  const terms = (query.get('labelSelector') ?? '').split(',').filter((term) => term !== '');
  const name = /^metadata\.name=+(.*)$/.exec(query.get('fieldSelector') ?? '')?.[1];
  return ({ metadata }) =>
    (name === undefined || metadata.name === name) &&
    terms.every((term) => {
      const [, label = '', operator, value] = /^([^=!]+)(!?=)=?(.*)$/.exec(term) ?? [];
      return (metadata.labels?.[label] === value) === (operator === '=');
    });
}

function read(cluster: Cluster, target: Target, query: URLSearchParams, response: ServerResponse): ServerResponse {
  const { resource, name, prefix } = target;
  if (name !== undefined) {
    const object = cluster.get(target.key(name));
    return object === undefined ? missing(response, target) : send(response, 200, object);
  }
  const matches = selected(query);
  return send(response, 200, {
    kind: `${resource.kind}List`,
    apiVersion: groupVersionOf(resource),
    metadata: { resourceVersion: String(cluster.newest) },
    items: cluster
      .list(prefix)
      .map(([, object]) => object)
      .filter(matches),
  });
}

function watch(cluster: Cluster, target: Target, query: URLSearchParams, response: ServerResponse): ServerResponse {
  response.writeHead(200, { 'content-type': 'application/json' });
  const matches = selected(query);
  const line = (type: string, object: object) => response.write(`${JSON.stringify({ type, object })}\n`);
  const from = Number(query.get('resourceVersion') ?? 0);
  const initial = from === 0 || query.get('sendInitialEvents') === 'true';
  const newest = cluster.newest;
  if (initial) for (const [, object] of cluster.list(target.prefix)) if (matches(object)) line('ADDED', object);
  if (query.get('sendInitialEvents') === 'true') {
    line('BOOKMARK', {
      apiVersion: groupVersionOf(target.resource),
      kind: target.resource.kind,
      metadata: { resourceVersion: String(newest), annotations: { 'k8s.io/initial-events-end': 'true' } },
    });
  }
  const end = cluster.follow(initial ? newest : from, ({ type, key, object }) => {
    if (key.startsWith(target.prefix) && matches(object)) line(type, object);
  });
  response.flushHeaders();
  return response.on('close', end);
}

function write(
  cluster: Cluster,
  target: Target,
  query: URLSearchParams,
  request: IncomingMessage,
  body: Buffer,
  response: ServerResponse,
): ServerResponse {
  const { name, resource, namespace } = target;
  const dryRun = query.get('dryRun') !== null;
  const type = request.headers['content-type'] ?? '';
  const manager = query.get('fieldManager') ?? 'helm';
  if (request.method === 'DELETE' && name !== undefined) {
    if (cluster.get(target.key(name)) === undefined) return missing(response, target);
    if (!dryRun) cluster.delete(target.key(name));
    return send(response, 200, { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success' });
  }
  const sent = (/protobuf/.test(type) ? secretOf(body) : parseYaml(body.toString('utf8'))) as KubeObject;
  if (namespace !== '') sent.metadata.namespace = namespace;
  const key = target.key(name ?? sent.metadata.name);
  const live = cluster.get(key);
  const update: Writer = { manager, operation: 'Update' };
  if (request.method === 'POST') {
    if (live !== undefined) {
      return fail(response, 409, 'AlreadyExists', `${resource.plural} "${sent.metadata.name}" already exists`);
    }
    return send(response, 201, cluster.update(key, sent, update, { dryRun }));
  }
  if (request.method === 'PATCH' && /apply-patch/.test(type)) {
    const force = query.get('force') === 'true';
    const apply: Writer = { manager, operation: 'Apply' };
    return send(response, live === undefined ? 201 : 200, cluster.apply(key, sent, apply, { force, dryRun }));
  }
  if (live === undefined) return missing(response, target);
  if (request.method === 'PUT') {
    const metadata = { ...live.metadata, ...sent.metadata };
    return send(response, 200, cluster.update(key, { ...sent, metadata }, update, { dryRun }));
  }
  return send(response, 200, cluster.update(key, merged(live, sent) as KubeObject, update, { dryRun }));
}

function missing(response: ServerResponse, { resource, name }: Target): ServerResponse {
  const details = { name, kind: resource.plural, group: resource.group };
  return fail(response, 404, 'NotFound', `${resource.plural} "${name}" not found`, details);
}

/** JSON merge patch. Enough for a strategic one that touches no list. */
function merged(live: unknown, patch: unknown): unknown {
  const isMap = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isMap(live) || !isMap(patch)) return patch;
  const result: Record<string, unknown> = { ...(live as object) };
  for (const [key, value] of Object.entries(patch as object)) {
    if (value === null) delete result[key];
    else result[key] = merged(result[key], value);
  }
  return result;
}

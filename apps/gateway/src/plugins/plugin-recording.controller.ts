import type { ServerResponse } from 'node:http';
import { AppError } from '@codedock/domain';
import { Controller, Inject, type OnModuleDestroy, Param, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { By, type Caller } from '../auth/caller.js';
import { Endpoint } from '../http/endpoint.js';
import { headersOf } from '../http/reply-headers.js';
import { PLUGIN_HOSTS, type PluginHosts, STORE, type Store } from '../tokens.js';
import { requireKnownPlugin } from './known-plugin.js';

/** Milliseconds between two empty lines, by which proxies see that the answer lives; the key is looked at again then. */
const HEARTBEAT_MS = 15_000;
/** Bytes a client may leave unread before it is dropped. */
const UNREAD_BYTES = 16 * 1024 * 1024;

/** Lets administrators look at what a plugin is asked. Nothing is recorded but while somebody looks, and nothing is kept. */
@Controller('v1/plugins')
export class PluginRecordingController implements OnModuleDestroy {
  private readonly open = new Set<ServerResponse>();

  constructor(
    @Inject(STORE) private readonly store: Store,
    @Inject(PLUGIN_HOSTS) private readonly hosts: PluginHosts,
  ) {}

  @Endpoint('GET', ':name/recording', {
    summary:
      'Follow what a plugin is asked in the name of your tenant, and what it answers; secrets taken out, audited',
    tag: 'Plugins',
    scopes: ['admin'],
    answers: {
      200: {
        description:
          'One JSON object `{question, answer?, failed?, at, duration_ms?}` a line, from now on until the client closes. Lines without text keep the connection alive.',
        mediaType: 'application/x-ndjson',
      },
    },
    problems: ['plugin_not_found', 'plugin_unavailable'],
  })
  async follow(
    @By() { tenantId, keyName }: Caller,
    @Param('name') name: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ) {
    await requireKnownPlugin(this.store, this.hosts, name);
    const replicas = await this.hosts.plugins.list();
    if (!replicas.some((one) => one.ok))
      throw new AppError('plugin_unavailable', 'No plugin-host answers; see PLUGIN_HOST_URL and its logs.');
    await this.store.audit.admin({ tenantId, actor: keyName, action: 'plugin.record', target: name, detail: {} });
    const response = begin(reply);
    // The client left while the plugin was looked for: nothing is emitted again then.
    if (response.destroyed || response.closed) return;
    this.open.add(response);
    let left = replicas.length;
    const stop = this.hosts.plugins.record(name, tenantId, {
      question: (json) => write(response, json),
      // A replica that is gone, or does not know the plugin, has nothing more to say; the others go on.
      ended: () => {
        left -= 1;
        if (left === 0) response.end();
      },
    });
    const heartbeat = setInterval(async () => {
      if ((await request.callerStillValid?.()) === false) response.end();
      else write(response, '');
    }, HEARTBEAT_MS);
    await new Promise<void>((resolve) => response.once('close', resolve));
    clearInterval(heartbeat);
    stop();
    this.open.delete(response);
  }

  /** The gateway stops: who follows sees the end. */
  onModuleDestroy(): void {
    for (const response of this.open) response.end();
  }
}

function begin(reply: FastifyReply): ServerResponse {
  reply.hijack();
  reply.raw.writeHead(200, {
    ...headersOf(reply),
    'content-type': 'application/x-ndjson',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    // At its end the connection is of no more use, and the gateway's own end does not wait for it.
    connection: 'close',
  });
  write(reply.raw, '');
  return reply.raw;
}

function write(response: ServerResponse, line: string): void {
  if (response.writableEnded || response.destroyed) return;
  if (response.writableLength > UNREAD_BYTES) response.destroy();
  else response.write(`${line}\n`);
}

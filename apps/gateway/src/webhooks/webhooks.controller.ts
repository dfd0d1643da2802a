import { AppError, WEBHOOK_EVENTS } from '@codedock/domain';
import type { Webhook } from '@codedock/store';
import { Body, Controller, Inject, Param, Query, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { By, type Caller } from '../auth/caller.js';
import { Endpoint } from '../http/endpoint.js';
import { defined, toPage } from '../http/shapes.js';
import { IdempotentRequests } from '../idempotency/idempotent-requests.js';
import { ids } from '../ids.js';
import { SecretTexts, webhookPlace } from '../secrets/secret-texts.js';
import { STORE, type Store } from '../tokens.js';
import { newWebhookSecret } from './signature.js';
import {
  type CreateWebhook,
  createdWebhook,
  createWebhook,
  deliveryPage,
  type ListDeliveries,
  listDeliveries,
  webhook,
  webhookList,
} from './webhook.schema.js';
import { webhookUrl } from './webhook-url.js';

const TAG = 'Webhooks';
/** Webhooks of one tenant. */
const MAX_WEBHOOKS = 50;

/** Injection token of the {@link WebhookRules}. */
export const WEBHOOK_RULES = Symbol('WebhookRules');
export interface WebhookRules {
  readonly allowPrivate: boolean;
}

/** Addresses that are told when a person is wanted and when a run is over. */
@Controller('v1/webhooks')
export class WebhooksController {
  constructor(
    @Inject(STORE) private readonly store: Store,
    @Inject(WEBHOOK_RULES) private readonly rules: WebhookRules,
    private readonly idempotent: IdempotentRequests,
    private readonly texts: SecretTexts,
  ) {}

  @Endpoint('POST', '', {
    summary: 'Create a webhook; its secret is shown this once',
    tag: TAG,
    scopes: ['admin'],
    body: createWebhook,
    answers: { 201: { description: 'The webhook with its secret.', schema: createdWebhook } },
    problems: ['conflict'],
    idempotent: true,
  })
  create(
    @By() { tenantId, keyId, keyName }: Caller,
    @Body() { url, description, events = [...WEBHOOK_EVENTS] }: CreateWebhook,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const target = webhookUrl(url, this.rules);
    return this.idempotent.answer(request, reply, async (claim) => {
      if ((await this.store.webhooks.list(tenantId)).length >= MAX_WEBHOOKS) {
        throw new AppError('conflict', `There are ${MAX_WEBHOOKS} webhooks already; delete one.`);
      }
      const secret = newWebhookSecret();
      const webhookId = ids.next();
      const sealed = this.texts.seal(secret, webhookPlace(tenantId, webhookId));
      const created = await this.store.webhooks.create(
        {
          tenantId,
          id: webhookId,
          url: target,
          events,
          secret: sealed,
          createdBy: keyId,
          ...defined({ description }),
        },
        claim === undefined
          ? undefined
          : { ...claim, status: 201, body: this.idempotent.kept(claim, { secret }, true) },
      );
      await this.audit(tenantId, keyName, 'webhook.created', created);
      return { status: 201, body: { ...created, secret } };
    });
  }

  @Endpoint('GET', '', {
    summary: 'List webhooks, oldest first',
    tag: TAG,
    scopes: ['admin'],
    answers: { 200: { description: 'All webhooks.', schema: webhookList } },
  })
  async list(@By() { tenantId }: Caller) {
    return { items: await this.store.webhooks.list(tenantId) };
  }

  @Endpoint('GET', ':webhookId', {
    summary: 'Get a webhook',
    tag: TAG,
    scopes: ['admin'],
    answers: { 200: { description: 'The webhook.', schema: webhook } },
  })
  get(@By() { tenantId }: Caller, @Param('webhookId') webhookId: string) {
    return this.store.webhooks.get(tenantId, webhookId);
  }

  @Endpoint('DELETE', ':webhookId', {
    summary: 'Delete a webhook with its deliveries',
    tag: TAG,
    scopes: ['admin'],
    answers: { 204: { description: 'It is gone.' } },
  })
  async delete(@By() { tenantId, keyName }: Caller, @Param('webhookId') webhookId: string) {
    const deleted = await this.store.webhooks.get(tenantId, webhookId);
    await this.store.webhooks.delete(tenantId, webhookId);
    await this.audit(tenantId, keyName, 'webhook.deleted', deleted);
  }

  @Endpoint('GET', ':webhookId/deliveries', {
    summary: 'List deliveries of the last days, newest first',
    tag: TAG,
    scopes: ['admin'],
    query: listDeliveries,
    answers: { 200: { description: 'A page of deliveries.', schema: deliveryPage } },
  })
  async deliveries(
    @By() { tenantId }: Caller,
    @Param('webhookId') webhookId: string,
    @Query() { limit, cursor }: ListDeliveries,
  ) {
    await this.store.webhooks.get(tenantId, webhookId);
    const found = await this.store.webhooks.deliveries({
      tenantId,
      webhookId,
      limit: limit + 1,
      ...defined({ before: cursor }),
    });
    return toPage(found, limit);
  }

  /** Only where it leads: path and query of a webhook's address are often its secret. */
  private audit(tenantId: string, actor: string, action: string, { id, url, events }: Webhook): Promise<void> {
    const detail = { origin: new URL(url).origin, events: [...events] };
    return this.store.audit.admin({ tenantId, actor, action, target: id, detail });
  }
}

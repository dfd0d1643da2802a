import { WEBHOOK_EVENTS } from '@codedock/domain';
import { z } from 'zod';
import { id, instant, page, pageOf } from '../http/shapes.js';

const event = z.enum(WEBHOOK_EVENTS);

export const createWebhook = z
  .strictObject({
    url: z.string().min(1).max(2_048).describe('Where to POST; https, without user and password.'),
    description: z.string().max(200).optional(),
    events: z
      .array(event)
      .min(1)
      .max(WEBHOOK_EVENTS.length)
      .refine((events) => new Set(events).size === events.length, 'names an event twice')
      .optional()
      .describe('Default: all of them.'),
  })
  .meta({ id: 'CreateWebhook' });
export type CreateWebhook = z.infer<typeof createWebhook>;

const fields = {
  id,
  url: z.string(),
  description: z.string().optional(),
  events: z.array(event),
  status: z.enum(['enabled', 'disabled']),
  createdAt: instant,
  lastSuccessAt: instant.optional(),
  lastFailureAt: instant.optional(),
  disabledAt: instant.optional(),
  disabledReason: z.string().optional(),
};

export const webhook = z.object(fields).meta({ id: 'Webhook' });

export const createdWebhook = z
  .object({ ...fields, secret: z.string().describe('Signs what is sent. Shown this once.') })
  .meta({ id: 'CreatedWebhook' });

export const webhookList = z.object({ items: z.array(webhook) }).meta({ id: 'WebhookList' });

const delivery = z
  .object({
    id: id.describe('`webhook-id` of all its attempts.'),
    eventId: id,
    sessionId: id,
    seq: z.int(),
    type: event,
    state: z.enum(['pending', 'delivered', 'failed']),
    attempts: z.int(),
    responseStatus: z.int().optional(),
    error: z.string().optional().describe('Why the last attempt failed.'),
    createdAt: instant,
    nextAt: instant.optional(),
    settledAt: instant.optional(),
  })
  .meta({ id: 'WebhookDelivery' });

export const deliveryPage = pageOf(delivery).meta({ id: 'WebhookDeliveryPage' });

export const listDeliveries = z.strictObject(page);
export type ListDeliveries = z.infer<typeof listDeliveries>;

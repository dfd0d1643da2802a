import { z } from 'zod';
import { json } from '../http/shapes.js';

const replicaState = z.object({
  replica: z.string().describe('Address of the plugin-host.'),
  state: z.string(),
  generation: z.int(),
  restarts: z.int(),
  droppedEvents: z.int().describe('Ledger events it was not told of because too many waited, since its host started.'),
  reason: z.string().optional(),
});

export const plugin = z.object({
  name: z.string(),
  state: z
    .string()
    .describe('starting, ready, draining, stopped, failed or disabled; where replicas differ, the worst.'),
  version: z.string().optional(),
  generation: z.int().optional(),
  required: z.boolean(),
  disabled: z.boolean(),
  reason: z.string().optional().describe('Why it is failed, stopped or refused.'),
  ports: z.array(z.string()).describe('What it subscribes to.'),
  tools: z.array(z.string()),
  delivery: z
    .object({
      waitingSessions: z.int().describe('Sessions with events that it has not been given.'),
      lagMs: z.int().describe('Age of the oldest of them; 0 when none waits.'),
      attempts: z.int().optional().describe('Tries in a row that brought nothing further, the most of any session.'),
      error: z.string().optional().describe('Why the event that waits longest was not delivered.'),
    })
    .optional()
    .describe('Of a plugin with durable delivery.'),
  replicas: z.array(replicaState),
});

export const pluginList = z
  .object({
    items: z.array(plugin).describe('In chain order.'),
    epoch: z.int().describe('Raised by every act that changes the chain.'),
    unreachable: z.array(z.object({ replica: z.string(), reason: z.string() })),
  })
  .meta({ id: 'PluginList' });

export const pluginChain = z
  .object({
    epoch: z.int(),
    ready: z.boolean(),
    reason: z.string().optional().describe('Why gates cannot be asked.'),
    disabled: z.array(z.string()),
    ports: z.array(
      z.object({
        port: z.string(),
        failurePolicy: z.string().describe('The strictest of the chain.'),
        budgetMs: z.number(),
        failing: z.string().optional().describe('Why the port cannot be asked at all.'),
        subscribers: z.array(
          z.object({
            plugin: z.string(),
            version: z.string().optional(),
            ready: z.boolean(),
            required: z.boolean(),
            failurePolicy: z.string(),
            match: json.optional().describe('Absent: asked for everything.'),
            shadow: z.boolean().optional().describe('Only watches: asked beside the chain, its decision is recorded.'),
          }),
        ),
      }),
    ),
    warnings: z.array(z.string()),
  })
  .meta({ id: 'PluginChain' });

export const changePlugin = z
  .strictObject({ reason: z.string().min(1).max(500).optional().describe('For the audit.') })
  .meta({ id: 'ChangePlugin' });
export type ChangePlugin = z.infer<typeof changePlugin>;

export const steeredPlugin = z
  .object({
    plugin: z.string(),
    epoch: z.int(),
    replicas: z
      .array(
        z.object({
          replica: z.string().describe('Address of the plugin-host.'),
          done: z.boolean(),
          state: z.string().optional().describe('Of the plugin there, once it is done.'),
          generation: z.int().optional(),
          reason: z.string().optional().describe('Why it is not done, or what is wrong with the plugin.'),
        }),
      )
      .describe('At least one has done it.'),
  })
  .meta({ id: 'SteeredPlugin' });

export const changedPlugin = z
  .object({
    plugin: z.string(),
    disabled: z.boolean(),
    epoch: z.int(),
    refreshed: z.int().describe('Plugin-hosts that took it over at once; the others follow within seconds.'),
  })
  .meta({ id: 'ChangedPlugin' });

import { randomUUID } from 'node:crypto';
import { SCOPES, type Scope } from '@codedock/domain';
import { type ApiKey, newApiKey, type Store, type Tenant } from '@codedock/store';
import { Command } from 'commander';
import { print, table } from '../output.js';
import { withStore } from '../with-store.js';
import { apiKeyIn } from './api-key-file.js';
import { expiryAfter } from './expiry.js';

interface CreateOptions {
  readonly tenant: string;
  readonly scopes: string;
  readonly expires?: string;
  readonly keyFile?: string;
}

/** `codedock keys create|list|rotate|revoke`: works on the database itself, since the first key cannot come through the API. */
export function keysCommand(): Command {
  const keys = new Command('keys').description(
    'API keys. Works on the database itself: DATABASE_URL, else that of a running `npm start`.',
  );

  keys
    .command('create')
    .description('make a key and print it once')
    .argument('<name>', 'what the key is for; shown in audit and events')
    .option('--tenant <name>', 'tenant; created when missing', 'default')
    .option('--scopes <list>', `comma-separated: ${SCOPES.join(', ')}`, 'runs')
    .option('--expires <duration>', 'validity from now: 12h, 30d; without it the key does not expire')
    .option('--key-file <file>', 'take the key from a file instead of making one; harmless when it is known already')
    .action(async (name: string, options: CreateOptions, command: Command) => {
      const scopes = scopesOf(options.scopes);
      const expiresAt = options.expires === undefined ? undefined : expiryAfter(options.expires, Date.now());
      const given = options.keyFile === undefined ? undefined : apiKeyIn(options.keyFile);
      const { key, hash } = given ?? newApiKey();
      const { known, created } = await withStore(async (store) => {
        const tenant = await store.tenants.ensure({ id: randomUUID(), name: options.tenant });
        const before = given === undefined ? undefined : await knownKey(store, tenant, name, hash);
        if (before !== undefined) return { known: before, created: undefined };
        const input = { id: randomUUID(), tenantId: tenant.id, name, hash, scopes };
        const made = await store.keys.create({ ...input, ...(expiresAt === undefined ? {} : { expiresAt }) });
        return { known: undefined, created: made };
      });
      if (known !== undefined) {
        const state = known.revokedAt === undefined ? 'is known already' : 'was revoked and stays so';
        print(command, known, () => `The key ${known.id} (${known.name}) ${state}; nothing is changed.`);
      } else if (given !== undefined) {
        print(command, created, () => `The key of ${options.keyFile} is key ${created?.id} (${name}) now.`);
      } else {
        print(
          command,
          { ...created, key },
          () =>
            `${key}\n\nThis is the only time the key is shown. Scopes: ${scopes.join(', ')}. Expires: ${expiresAt ?? 'never'}.`,
        );
      }
    });

  keys
    .command('list')
    .description('all keys of a tenant, revoked and expired ones too')
    .option('--tenant <name>', 'tenant', 'default')
    .action(async (options: { tenant: string }, command: Command) => {
      const all = await withStore(async (store) => store.keys.list((await tenantOf(store, options.tenant)).id));
      print(command, { items: all }, () =>
        table(
          ['key', 'name', 'scopes', 'created', 'expires', 'former secret until', 'revoked'],
          all.map((key) => [
            key.id,
            key.name,
            key.scopes.join(','),
            key.createdAt,
            key.expiresAt ?? 'never',
            key.formerUntil,
            key.revokedAt,
          ]),
        ),
      );
    });

  keys
    .command('rotate')
    .description('give a key a new secret and print it once; the former one stays good for a while')
    .argument('<key>', 'key id, as `keys list` shows it')
    .option('--tenant <name>', 'tenant', 'default')
    .option('--grace <duration>', 'how long the former secret is still good: 30m, 24h, 7d; at most 30d', '24h')
    .option('--expires <duration>', 'validity of the key from now; without it as before')
    .action(async (id: string, options: { tenant: string; grace: string; expires?: string }, command: Command) => {
      const graceMs = graceOf(options.grace);
      const expiresAt = options.expires === undefined ? undefined : expiryAfter(options.expires, Date.now());
      const { key, hash } = newApiKey();
      const rotated = await withStore(async (store) =>
        store.keys.rotate({
          tenantId: (await tenantOf(store, options.tenant)).id,
          keyId: id,
          hash,
          graceMs,
          actor: 'codedock keys',
          ...(expiresAt === undefined ? {} : { expiresAt }),
        }),
      );
      print(
        command,
        { ...rotated, key },
        () =>
          `${key}\n\nThis is the only time the key is shown. The former secret of ${rotated.name} is good until: ${rotated.formerUntil ?? 'now'}.`,
      );
    });

  keys
    .command('revoke')
    .description('make a key useless; gateways notice within seconds')
    .argument('<key>', 'key id, as `keys list` shows it')
    .option('--tenant <name>', 'tenant', 'default')
    .action(async (id: string, options: { tenant: string }, command: Command) => {
      const revoked = await withStore(async (store) =>
        store.keys.revoke((await tenantOf(store, options.tenant)).id, id, 'codedock keys'),
      );
      print(command, revoked, () => `key ${revoked.id} (${revoked.name}) is revoked`);
    });

  return keys;
}

/** The key of that hash, or a revoked one of that name, which is not brought back under its name. */
async function knownKey(store: Store, tenant: Tenant, name: string, hash: string): Promise<ApiKey | undefined> {
  const live = await store.keys.authenticate(hash);
  if (live !== undefined) return live;
  const namesakes = (await store.keys.list(tenant.id)).filter((key) => key.name === name);
  return namesakes.some((key) => key.revokedAt === undefined) ? undefined : namesakes[0];
}

function graceOf(text: string): number {
  const ms = text === '0' ? 0 : Date.parse(expiryAfter(text, 0, '--grace'));
  if (ms <= 30 * 86_400_000) return ms;
  throw new Error(`--grace takes at most 30d, not "${text}".`);
}

function scopesOf(list: string): Scope[] {
  const names = list.split(',').map((name) => name.trim());
  const wrong = names.filter((name) => !(SCOPES as readonly string[]).includes(name));
  if (wrong.length > 0) throw new Error(`--scopes does not know "${wrong.join(', ')}"; it takes ${SCOPES.join(', ')}.`);
  return [...new Set(names)] as Scope[];
}

async function tenantOf(store: Store, name: string): Promise<Tenant> {
  const tenant = await store.tenants.findByName(name);
  if (tenant === undefined) throw new Error(`There is no tenant "${name}". \`codedock keys create\` makes one.`);
  return tenant;
}

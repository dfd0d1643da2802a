import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openStore } from '@codedock/store';

/** Secrets that the services share; made once per clone, readable by its owner only. */
export async function installationSecrets(folder) {
  const file = join(folder, 'secrets.json');
  const kept = await readFile(file, 'utf8').then(JSON.parse, () => undefined);
  const random = () => randomBytes(32).toString('hex');
  // What a former version did not know is added; what there is stays, for the database depends on it.
  const made = { internalToken: random(), capabilityKey: random(), secretsKey: random(), ...kept };
  if (kept?.internalToken && kept.capabilityKey && kept.secretsKey) return kept;
  await writeFile(file, JSON.stringify(made), { mode: 0o600 });
  return made;
}

/**
 * The first API key: of the tenant `default`, with all scopes. Raises the chain epoch too, since a start is a deployment.
 * The key is kept beside the database that knows its hash, so that a second start prints the same one.
 */
export async function firstKey(folder, databaseUrl) {
  const file = join(folder, 'api-key');
  const store = await openStore({ url: databaseUrl, maxConnections: 1 });
  try {
    await store.plugins.raiseEpoch('npm start');
    const kept = await readFile(file, 'utf8').catch(() => undefined);
    if (kept && (await store.keys.authenticate(hashOf(kept.trim())))) return kept.trim();
    const key = `cdk_${randomBytes(32).toString('base64url')}`;
    const tenant = await store.tenants.ensure({ id: randomUUID(), name: 'default' });
    const known = new Set((await store.keys.list(tenant.id)).map(({ name }) => name));
    let name = 'first';
    for (let n = 2; known.has(name); n += 1) name = `first-${n}`;
    await store.keys.create({
      id: randomUUID(),
      tenantId: tenant.id,
      name,
      hash: hashOf(key),
      scopes: ['runs', 'approvals', 'admin'],
    });
    await writeFile(file, `${key}\n`, { mode: 0o600 });
    return key;
  } finally {
    await store.close();
  }
}

function hashOf(key) {
  return createHash('sha256').update(key).digest('hex');
}

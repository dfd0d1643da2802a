import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { hashedApiKey, newApiKey, type Store } from '@codedock/store';
import { createTestStore } from '@codedock/testkit';
import { program } from '../program.js';

describe('codedock keys create --key-file', () => {
  let store: Store;
  let close: () => Promise<void>;
  let folder: string;
  const before = process.env['DATABASE_URL'];

  beforeAll(async () => {
    let url: string;
    ({ store, url, close } = await createTestStore());
    process.env['DATABASE_URL'] = url;
    folder = mkdtempSync(path.join(os.tmpdir(), 'codedock-keys-'));
  });
  afterAll(async () => {
    if (before === undefined) delete process.env['DATABASE_URL'];
    else process.env['DATABASE_URL'] = before;
    rmSync(folder, { recursive: true, force: true });
    await close();
  });

  async function create(name: string, key: string): Promise<string> {
    const file = path.join(folder, 'key');
    writeFileSync(file, `${key}\n`);
    const written = jest.spyOn(process.stdout, 'write').mockReturnValue(true);
    await program().parseAsync(['node', 'codedock', 'keys', 'create', name, '--scopes', 'runs', '--key-file', file]);
    const text = written.mock.calls.join('');
    written.mockRestore();
    return text;
  }
  const keysNamed = async (name: string) => {
    const tenant = await store.tenants.findByName('default');
    const keys = tenant === undefined ? [] : await store.keys.list(tenant.id);
    return keys.filter((key) => key.name === name);
  };

  it('makes the key of the file known, and again is harmless', async () => {
    const { key, hash } = newApiKey();
    const first = await create('first', key);
    expect(first).not.toContain(key);
    expect(await store.keys.authenticate(hash)).toMatchObject({ name: 'first', scopes: ['runs'] });
    expect(await create('first', key)).toContain('is known already');
    expect(await keysNamed('first')).toHaveLength(1);
  });

  it('does not bring a revoked key back', async () => {
    const { key, hash } = newApiKey();
    await create('revoked', key);
    const [made] = await keysNamed('revoked');
    await store.keys.revoke(made?.tenantId ?? '', made?.id ?? '', 'test');
    expect(await create('revoked', key)).toContain('was revoked and stays so');
    expect(await store.keys.authenticate(hash)).toBeUndefined();
  });

  it('refuses another key of a live name', async () => {
    await create('taken', newApiKey().key);
    await expect(create('taken', newApiKey().key)).rejects.toThrow(/live key named taken/);
  });

  it.each(['', 'cdk_short', 'secret of another kind'])('refuses a file with %j and does not show it', async (text) => {
    await expect(create('odd', text)).rejects.toThrow(/holds no API key/);
    await expect(create('odd', text)).rejects.not.toThrow(/another kind/);
    expect(await keysNamed('odd')).toEqual([]);
  });
});

describe('codedock keys rotate', () => {
  let store: Store;
  let close: () => Promise<void>;
  const before = process.env['DATABASE_URL'];

  beforeAll(async () => {
    let url: string;
    ({ store, url, close } = await createTestStore());
    process.env['DATABASE_URL'] = url;
  });
  afterAll(async () => {
    if (before === undefined) delete process.env['DATABASE_URL'];
    else process.env['DATABASE_URL'] = before;
    await close();
  });

  async function codedock(...args: string[]): Promise<string> {
    const written = jest.spyOn(process.stdout, 'write').mockReturnValue(true);
    await program().parseAsync(['node', 'codedock', ...args]);
    const text = written.mock.calls.join('');
    written.mockRestore();
    return text;
  }
  const secretIn = (text: string) => hashedApiKey(/cdk_[A-Za-z0-9_-]{43}/.exec(text)?.[0] ?? '').hash;

  it('prints a new secret, and the former one stays good for the time of grace', async () => {
    const former = secretIn(await codedock('keys', 'create', 'ci', '--scopes', 'runs,admin'));
    const id = (await store.keys.authenticate(former))?.id as string;
    const newest = secretIn(await codedock('keys', 'rotate', id, '--grace', '1h'));
    expect(await store.keys.authenticate(former)).toMatchObject({ id, scopes: ['runs', 'admin'] });
    expect(await store.keys.authenticate(newest)).toMatchObject({ id });
    const last = secretIn(await codedock('keys', 'rotate', id, '--grace', '0'));
    expect(await store.keys.authenticate(former)).toBeUndefined();
    expect(await store.keys.authenticate(newest)).toBeUndefined();
    expect(await store.keys.authenticate(last)).toMatchObject({ id });
    await expect(codedock('keys', 'rotate', id, '--grace', '31d')).rejects.toThrow('--grace');
  });
});

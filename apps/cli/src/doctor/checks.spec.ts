import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PemConverter, X509CertificateGenerator } from '@peculiar/x509';
import { checkCertificates, checkConfiguration } from './check-configuration.js';
import { clockFinding } from './check-database.js';

const NOW = Date.parse('2026-06-01T00:00:00Z');
const DAY = 86_400_000;
const crypto = webcrypto as Parameters<typeof X509CertificateGenerator.createSelfSigned>[1];
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'codedock-doctor-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Files of an authority and of a certificate it has signed (or, `foreign`, another one has). */
async function files(name: string, { until, foreign = false }: { readonly until: number; readonly foreign?: boolean }) {
  const keys = () =>
    webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']) as Promise<webcrypto.CryptoKeyPair>;
  const [authority, other, own] = [await keys(), await keys(), await keys()];
  const validity = { notBefore: new Date(NOW - 100 * DAY), signingAlgorithm: algorithm };
  const ca = await X509CertificateGenerator.createSelfSigned(
    {
      ...validity,
      serialNumber: '01',
      name: 'CN=authority',
      notAfter: new Date(NOW + 1_000 * DAY),
      keys: authority,
    },
    crypto,
  );
  const cert = await X509CertificateGenerator.create(
    {
      ...validity,
      serialNumber: '02',
      subject: 'CN=gateway',
      issuer: 'CN=authority',
      notAfter: new Date(until),
      publicKey: own.publicKey,
      signingKey: (foreign ? other : authority).privateKey,
    },
    crypto,
  );
  const write = (kind: string, text: string) => {
    const file = path.join(folder, `${name}.${kind}.pem`);
    writeFileSync(file, text);
    return file;
  };
  const key = await webcrypto.subtle.exportKey('pkcs8', own.privateKey);
  return {
    CODEDOCK_TLS_CA_FILE: write('ca', ca.toString('pem')),
    CODEDOCK_TLS_CERT_FILE: write('cert', cert.toString('pem')),
    CODEDOCK_TLS_KEY_FILE: write('key', PemConverter.encode(key, 'PRIVATE KEY')),
  };
}

const worst = (findings: readonly { readonly state: string; readonly detail: string }[]) =>
  findings.find(({ state }) => state !== 'ok') ?? findings[0];

describe('certificates', () => {
  it.each([
    ['valid for long', { until: NOW + 100 * DAY }, 'ok', /^valid until/],
    ['ending soon', { until: NOW + 10.5 * DAY }, 'warning', /^it expires in 10 days/],
    ['expired', { until: NOW - DAY }, 'failed', /^it expired at 2026-05-31/],
    ['of another authority', { until: NOW + 100 * DAY, foreign: true }, 'failed', /not signed by CODEDOCK_TLS_CA_FILE/],
  ])('%s', async (name, options, state, detail) => {
    const found = worst(checkCertificates(await files(name.replaceAll(' ', '-'), options), NOW));
    expect(found).toMatchObject({ state, detail: expect.stringMatching(detail) });
  });

  it('a file that is missing is named; without any there is nothing to look at', async () => {
    const given = await files('missing', { until: NOW + DAY });
    const findings = checkCertificates({ ...given, CODEDOCK_TLS_KEY_FILE: path.join(folder, 'none') }, NOW);
    expect(findings).toMatchObject([{ state: 'failed', detail: expect.stringContaining('CODEDOCK_TLS_KEY_FILE') }]);
    expect(checkCertificates({}, NOW)).toMatchObject([{ state: 'skipped' }]);
  });
});

test('configuration: every problem of every service, with its variable', () => {
  const environment = { DATABASE_URL: 'postgres://h/d', PLUGIN_RPC_TIMEOUT: '3s', PLUGIN_GATE_TIMEOUT: '2s' };
  const findings = checkConfiguration(['gateway', 'plugin-host'], environment);
  expect(findings).toMatchObject([
    { state: 'failed', where: 'gateway: PLUGIN_RPC_TIMEOUT' },
    { state: 'failed', where: 'plugin-host: PLUGIN_RPC_TIMEOUT' },
  ]);
  expect(checkConfiguration(['gateway'], { DATABASE_URL: 'postgres://h/d' })).toMatchObject([{ state: 'ok' }]);
});

test('clocks: seconds are wrong, tenths are not', () => {
  expect(clockFinding(-40)).toMatchObject({ state: 'ok', detail: '40 ms behind' });
  expect(clockFinding(2_000).state).toBe('warning');
  expect(clockFinding(-6_000).state).toBe('failed');
});

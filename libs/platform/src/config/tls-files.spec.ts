import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { readTlsFiles, type TlsPaths } from './tls-files.js';

// A pair made for this suite; nothing trusts it.
const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBfjCCASWgAwIBAgIUWNtbnU6vNC0NbBFulXZqXkB1ueswCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEzMDE1MDEzNloYDzIxMjYxMTA2
MTUwMTM2WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQ37UZRRU22FD1JdWhE/fvdk0dSmYZxNsrIkGTwTaZyNTB/9fMSTLqc
xawvWAxfkubZBPZmAsxX1ONqKfkO58pmo1MwUTAdBgNVHQ4EFgQUN5sDvU4FOc3r
hVPJY06gsS6yuuwwHwYDVR0jBBgwFoAUN5sDvU4FOc3rhVPJY06gsS6yuuwwDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiAhCqX9UUG2cNxpRhdGBHp4
4FIPCFGZaIGAzhGKsc0wgAIgE2ZMJnL1UvPlgNaLnrcx07p+j+2jK0aOvSFgiR4/
Rhk=
-----END CERTIFICATE-----
`;
const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgrZstjIdQwbt/o+cz
0ibT6n8uGBIh8cAmhpm996bNSBKhRANCAAQ37UZRRU22FD1JdWhE/fvdk0dSmYZx
NsrIkGTwTaZyNTB/9fMSTLqcxawvWAxfkubZBPZmAsxX1ONqKfkO58pm
-----END PRIVATE KEY-----
`;

let folder: string;
let paths: { tlsCaFile: string; tlsCertFile: string; tlsKeyFile: string };
beforeAll(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'codedock-tls-'));
  paths = {
    tlsCaFile: file('ca.pem', CERTIFICATE),
    tlsCertFile: file('cert.pem', CERTIFICATE),
    tlsKeyFile: file('key.pem', KEY),
  };
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, content: string): string {
  const target = path.join(folder, name);
  writeFileSync(target, content, { mode: 0o600 });
  return target;
}

describe('the files of mutual TLS', () => {
  test('are read, or none of them', () => {
    expect(readTlsFiles(paths)).toEqual({
      ca: Buffer.from(CERTIFICATE),
      cert: Buffer.from(CERTIFICATE),
      key: Buffer.from(KEY),
    });
    expect(readTlsFiles({ tlsCaFile: undefined, tlsCertFile: undefined, tlsKeyFile: undefined })).toBeUndefined();
  });

  test.each<[string, keyof TlsPaths, () => string, RegExp]>([
    ['CODEDOCK_TLS_CA_FILE', 'tlsCaFile', () => path.join(folder, 'none'), /cannot be read \(ENOENT\)\. Check path/],
    ['CODEDOCK_TLS_CERT_FILE', 'tlsCertFile', () => folder, /cannot be read \(EISDIR\)/],
    ['CODEDOCK_TLS_CA_FILE', 'tlsCaFile', () => file('text', 'hello'), /holds no certificate.*as PEM/],
    ['CODEDOCK_TLS_CERT_FILE', 'tlsCertFile', () => paths.tlsKeyFile, /holds no certificate/],
    [
      'CODEDOCK_TLS_CERT_FILE',
      'tlsCertFile',
      () => file('cut.pem', CERTIFICATE.slice(0, 200)),
      /its certificate is broken/,
    ],
    ['CODEDOCK_TLS_KEY_FILE', 'tlsKeyFile', () => paths.tlsCertFile, /holds no private key/],
    ['CODEDOCK_TLS_KEY_FILE', 'tlsKeyFile', anotherKey, /is not that of CODEDOCK_TLS_CERT_FILE/],
  ])('%s: a wrong one is named, with the remedy (%#)', (variable, key, wrong, expected) => {
    const read = () => readTlsFiles({ ...paths, [key]: wrong() });
    expect(read).toThrow(expected);
    expect(read).toThrow(new RegExp(`^${variable} is "`));
  });
});

function anotherKey(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return file('other.pem', privateKey.export({ type: 'pkcs8', format: 'pem' }) as string);
}

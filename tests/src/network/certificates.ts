import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  type X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';

type Keys = Parameters<typeof X509CertificateGenerator.createSelfSigned>[0]['keys'];
type Provider = Parameters<typeof X509CertificateGenerator.createSelfSigned>[1];

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const provider = webcrypto as Provider;
const HOUR_MS = 3_600_000;

/** The variables of mutual TLS for one service at `address`. */
export type TlsVariables = Readonly<
  Record<'CODEDOCK_TLS_CA_FILE' | 'CODEDOCK_TLS_CERT_FILE' | 'CODEDOCK_TLS_KEY_FILE', string>
>;

/** Makes certificates of one authority, as the chart does. */
export class Authority {
  private constructor(
    private readonly folder: string,
    private readonly certificate: X509Certificate,
    private readonly keys: webcrypto.CryptoKeyPair,
  ) {}

  static async create(folder: string): Promise<Authority> {
    const keys = await keyPair();
    const certificate = await X509CertificateGenerator.createSelfSigned(
      {
        serialNumber: '01',
        name: 'CN=codedock-test-authority',
        ...validity(),
        signingAlgorithm: algorithm,
        keys: keys as Keys,
        extensions: [
          new BasicConstraintsExtension(true, undefined, true),
          new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
        ],
      },
      provider,
    );
    await writeFile(path.join(folder, 'ca.crt'), certificate.toString('pem'));
    return new Authority(folder, certificate, keys);
  }

  async issue(name: string, address: string): Promise<TlsVariables> {
    const keys = await keyPair();
    const certificate = await X509CertificateGenerator.create(
      {
        serialNumber: Buffer.from(name).toString('hex').slice(0, 30).padStart(32, '1'),
        subject: `CN=${name}`,
        issuer: this.certificate.subject,
        ...validity(),
        signingAlgorithm: algorithm,
        publicKey: keys.publicKey as never,
        signingKey: this.keys.privateKey as never,
        extensions: [
          new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
          new ExtendedKeyUsageExtension([ExtendedKeyUsage.clientAuth, ExtendedKeyUsage.serverAuth]),
          new SubjectAlternativeNameExtension([{ type: 'ip', value: address }]),
        ],
      },
      provider,
    );
    const key = PemConverter.encode(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey), 'PRIVATE KEY');
    const files = { certificate: path.join(this.folder, `${name}.crt`), key: path.join(this.folder, `${name}.key`) };
    await writeFile(files.certificate, certificate.toString('pem'));
    await writeFile(files.key, key, { mode: 0o600 });
    return {
      CODEDOCK_TLS_CA_FILE: path.join(this.folder, 'ca.crt'),
      CODEDOCK_TLS_CERT_FILE: files.certificate,
      CODEDOCK_TLS_KEY_FILE: files.key,
    };
  }
}

async function keyPair(): Promise<webcrypto.CryptoKeyPair> {
  return (await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])) as webcrypto.CryptoKeyPair;
}

function validity() {
  const now = Date.now();
  return { notBefore: new Date(now - HOUR_MS), notAfter: new Date(now + 24 * HOUR_MS) };
}

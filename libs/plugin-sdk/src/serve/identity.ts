import 'reflect-metadata';
import { randomBytes, webcrypto } from 'node:crypto';
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
} from '@peculiar/x509';

/** A one-process identity for mutual TLS with the host; the key never leaves this process. */
export interface Identity {
  readonly certificateDer: Buffer;
  readonly certificatePem: string;
  readonly privateKeyPem: string;
}

type CreateOptions = Parameters<typeof X509CertificateGenerator.createSelfSigned>[0];
type CryptoProvider = Parameters<typeof X509CertificateGenerator.createSelfSigned>[1];

// P-256, because it is the one curve every peer takes: TLS of gRPC wheels for Python (BoringSSL) offers no P-521 signatures.
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
// A clock that is set back between two starts must not make the other end's certificate one of the future.
const clockSkewMs = 24 * 3_600_000;
const validForMs = 262_980 * 3_600_000;

/** A fresh self-signed P-256 certificate for `localhost`, usable by both ends. */
export async function createIdentity(now: Date = new Date()): Promise<Identity> {
  const keys = (await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])) as webcrypto.CryptoKeyPair;
  const serial = randomBytes(16);
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x01;
  const certificate = await X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: serial.toString('hex'),
      name: 'CN=localhost, O=CodeDock',
      notBefore: new Date(now.getTime() - clockSkewMs),
      notAfter: new Date(now.getTime() + validForMs),
      signingAlgorithm: algorithm,
      keys: keys as CreateOptions['keys'],
      extensions: [
        new BasicConstraintsExtension(true, undefined, true),
        new KeyUsagesExtension(
          KeyUsageFlags.digitalSignature |
            KeyUsageFlags.keyEncipherment |
            KeyUsageFlags.keyAgreement |
            KeyUsageFlags.keyCertSign,
          true,
        ),
        new ExtendedKeyUsageExtension([ExtendedKeyUsage.clientAuth, ExtendedKeyUsage.serverAuth]),
        new SubjectAlternativeNameExtension([{ type: 'dns', value: 'localhost' }]),
      ],
    },
    webcrypto as CryptoProvider,
  );
  const privateKey = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey);
  return {
    certificateDer: Buffer.from(certificate.rawData),
    certificatePem: `${certificate.toString('pem')}\n`,
    privateKeyPem: `${PemConverter.encode(privateKey, 'PRIVATE KEY')}\n`,
  };
}

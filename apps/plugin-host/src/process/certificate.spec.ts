import { createPrivateKey, X509Certificate } from 'node:crypto';
import { createIdentity } from './certificate.js';

describe('identities', () => {
  it('are P-256, self-signed, for localhost, and fresh each time', async () => {
    const now = new Date('2026-01-01T00:00:00Z');
    const [one, other] = await Promise.all([createIdentity(now), createIdentity(now)]);
    const certificate = new X509Certificate(one.certificatePem);
    const key = createPrivateKey(one.privateKeyPem);
    expect(key.asymmetricKeyDetails?.namedCurve).toBe('prime256v1');
    expect(certificate.checkPrivateKey(key)).toBe(true);
    expect(certificate.verify(certificate.publicKey)).toBe(true);
    expect(certificate.checkHost('localhost')).toBe('localhost');
    expect(certificate.ca).toBe(true);
    expect(certificate.keyUsage).toEqual(expect.arrayContaining(['1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.2']));
    expect(new Date(certificate.validFrom)).toEqual(new Date('2025-12-31T00:00:00Z'));
    expect(new Date(certificate.validTo).getUTCFullYear()).toBe(2056);
    expect(other.certificatePem).not.toBe(one.certificatePem);
  });
});

import { type Capability, capabilitySigner, capabilityVerifier, peekCapability } from './capability.js';

const key = 'k'.repeat(32);
const capability: Capability = { tenant: 't', session: 's', run: 'r', subject: 'beforeInput', expiresAt: 1_000 };

describe('a capability', () => {
  const signed = capabilitySigner(key)(capability);
  const verify = capabilityVerifier(key);

  it('verifies until it expires', () => {
    expect(verify(signed, 999)).toEqual({ kind: 'valid', capability });
    expect(verify(signed, 1_000)).toEqual({ kind: 'refused', reason: 'expired' });
  });

  it('is refused after any change of a byte, and under another key', () => {
    for (let at = 0; at < signed.length; at++) {
      const forged = Buffer.from(signed);
      forged[at] = (forged[at] as number) ^ 1;
      expect(verify(forged, 0).kind).toBe('refused');
    }
    expect(capabilityVerifier('x'.repeat(32))(signed, 0)).toEqual({ kind: 'refused', reason: 'wrong signature' });
  });

  it('is accepted under any of several keys, and only those', () => {
    const [former, newest] = ['f'.repeat(32), 'n'.repeat(32)];
    const either = capabilityVerifier(newest, former);
    for (const signer of [former, newest]) expect(either(capabilitySigner(signer)(capability), 0).kind).toBe('valid');
    expect(either(signed, 0)).toEqual({ kind: 'refused', reason: 'wrong signature' });
    expect(() => capabilityVerifier(newest, 'short')).toThrow(/CODEDOCK_CAPABILITY_KEY/);
  });

  it('is refused when missing or malformed', () => {
    expect(verify(Buffer.alloc(0), 0)).toEqual({ kind: 'refused', reason: 'missing' });
    for (const text of ['x', 'a.b.c', '.', 'a.', 'x'.repeat(9_000)]) {
      expect(verify(Buffer.from(text), 0).kind).toBe('refused');
    }
  });

  it('can be read without the key', () => {
    expect(peekCapability(signed)).toEqual(capability);
    expect(peekCapability(Buffer.from('rubbish'))).toBeUndefined();
  });

  it('refuses a short key', () => {
    expect(() => capabilitySigner('short')).toThrow(/CODEDOCK_CAPABILITY_KEY/);
  });
});

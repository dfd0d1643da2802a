import { randomBytes } from 'node:crypto';
import { secretCipher } from './secret-cipher.js';

const key = randomBytes(32).toString('hex');
const place = { owner: 'tenant', plugin: 'notes', key: 'token' };

describe('sealing secrets', () => {
  it('opens what it sealed, with the key in either spelling', () => {
    const sealed = secretCipher(key).seal('geheim 🔑', place);
    expect(secretCipher(Buffer.from(key, 'hex').toString('base64')).open(sealed, place)).toBe('geheim 🔑');
    expect(Buffer.from(sealed.bytes).includes('geheim')).toBe(false);
    expect(secretCipher(key).seal('geheim 🔑', place).bytes).not.toEqual(sealed.bytes);
  });

  it('says that the key is another one', () => {
    const sealed = secretCipher(key).seal('x', place);
    expect(() => secretCipher(randomBytes(32).toString('hex')).open(sealed, place)).toThrow(
      /stored under another key \([0-9a-f]{16}\) than CODEDOCK_SECRETS_KEY is now/,
    );
  });

  it.each([
    ['another tenant', { ...place, owner: 'other' }],
    ['another plugin', { ...place, plugin: 'other' }],
    ['another name', { ...place, key: 'other' }],
  ])('does not open for %s', (_, elsewhere) => {
    const cipher = secretCipher(key);
    expect(() => cipher.open(cipher.seal('x', place), elsewhere)).toThrow(/was changed in the database/);
  });

  it('does not open what was changed, or is too short to be anything', () => {
    const cipher = secretCipher(key);
    const { keyId, bytes } = cipher.seal('a longer secret', place);
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(() => cipher.open({ keyId, bytes: changed }, place)).toThrow(/cannot be opened/);
    }
    for (const length of [0, 1, 12, 27]) {
      expect(() => cipher.open({ keyId, bytes: bytes.slice(0, length) }, place)).toThrow(/cannot be opened/);
    }
  });

  it.each(['', 'short', 'x'.repeat(64)])('is refused the key %j', (text) => {
    expect(() => secretCipher(text)).toThrow(/CODEDOCK_SECRETS_KEY/);
  });
});

import { createHmac } from 'node:crypto';
import { newWebhookSecret, signedHeaders } from './signature.js';

describe('signatures of webhooks', () => {
  it('are those of Standard Webhooks: its own example', () => {
    const headers = signedHeaders('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', {
      id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      sentAtMs: 1_614_265_330_000,
      body: '{"test": 2432232314}',
    });
    expect(headers).toEqual({
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    });
  });

  it('are made with secrets of 256 bits, no two alike', () => {
    const secrets = Array.from({ length: 50 }, newWebhookSecret);
    expect(new Set(secrets).size).toBe(50);
    for (const secret of secrets) expect(Buffer.from(secret.slice('whsec_'.length), 'base64')).toHaveLength(32);
  });

  it('cover the body, the id and the second', () => {
    const of = (message: Partial<{ id: string; sentAtMs: number; body: string }>) =>
      signedHeaders('whsec_AAAA', { id: 'a', sentAtMs: 5_900, body: '{}', ...message })['webhook-signature'];
    const expected = createHmac('sha256', Buffer.from('AAAA', 'base64')).update('a.5.{}').digest('base64');
    expect(of({})).toBe(`v1,${expected}`);
    expect(new Set([of({}), of({ id: 'b' }), of({ sentAtMs: 6_000 }), of({ body: '[]' })]).size).toBe(4);
  });
});

import { createHmac, randomBytes } from 'node:crypto';

const PREFIX = 'whsec_';

/** A new secret of 256 bits, in the form of Standard Webhooks. */
export function newWebhookSecret(): string {
  return `${PREFIX}${randomBytes(32).toString('base64')}`;
}

/** Headers by which a receiver knows sender, message and time, as Standard Webhooks defines them. */
export function signedHeaders(
  secret: string,
  message: { readonly id: string; readonly sentAtMs: number; readonly body: string },
): Readonly<Record<string, string>> {
  const timestamp = String(Math.floor(message.sentAtMs / 1_000));
  const key = Buffer.from(secret.slice(PREFIX.length), 'base64');
  const signature = createHmac('sha256', key).update(`${message.id}.${timestamp}.${message.body}`).digest('base64');
  return {
    'webhook-id': message.id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${signature}`,
  };
}

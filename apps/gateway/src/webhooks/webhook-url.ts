import { isIP } from 'node:net';
import { addressKind } from '@codedock/models';
import { invalid } from '../http/validation.js';

/**
 * The address of a webhook, normalised. Where a name leads is judged again at every connection.
 * @throws AppError `invalid_request` naming `/url`.
 */
export function webhookUrl(text: string, { allowPrivate }: { readonly allowPrivate: boolean }): string {
  const refuse = (message: string) => invalid('body', [{ path: '/url', message }]);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined) throw refuse('is no URL');
  if (url.username !== '' || url.password !== '') throw refuse('must hold no user and password');
  if (url.hash !== '') throw refuse('must hold no fragment');
  const kind = kindOf(url.hostname);
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && kind === 'loopback')) throw refuse('must be https');
  if (kind !== 'public' && !allowPrivate) {
    throw refuse('leads into a private network; CODEDOCK_WEBHOOK_ALLOW_PRIVATE allows that');
  }
  return url.href;
}

/** A name other than localhost counts as public until it is looked up. */
function kindOf(hostname: string): ReturnType<typeof addressKind> {
  const host = hostname.replace(/^\[|\]$/g, '').toLowerCase();
  if (host === 'localhost' || host.endsWith('.localhost')) return 'loopback';
  return isIP(host) === 0 ? 'public' : addressKind(host);
}

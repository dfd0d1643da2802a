import { AppError } from '@codedock/domain';
import type { MemoryOwner, MemoryScope, Store } from '@codedock/store';
import { isMemoryName, MAX_MEMORY_NAME, MAX_MEMORY_TEXT } from '../memory/memory-bounds.js';
import type { Authority } from './plugin-authority.js';

const SCOPES: Readonly<Record<string, MemoryScope>> = {
  '': 'session',
  session: 'session',
  user: 'user',
  tenant: 'tenant',
  workspace: 'tenant',
};

/**
 * Whose memory a plugin means.
 * @throws AppError `invalid_request` for an unknown scope, or `user` in a session that has no user.
 */
export async function memoryOwner(store: Store, { capability }: Authority, scope: string): Promise<MemoryOwner> {
  const known = Object.hasOwn(SCOPES, scope) ? SCOPES[scope] : undefined;
  if (known === undefined) {
    throw new AppError(
      'invalid_request',
      `The memory scope ${scope.slice(0, 64)} does not exist; use session, user or tenant.`,
    );
  }
  const { tenant: tenantId, session } = capability;
  if (known === 'tenant') return { tenantId, scope: known, owner: '' };
  if (known === 'session') return { tenantId, scope: known, owner: session };
  const { user } = await store.sessions.get(tenantId, session);
  if (user === undefined)
    throw new AppError('invalid_request', 'This session has no user, so that it has no user memory.');
  return { tenantId, scope: known, owner: user };
}

/** @throws AppError `invalid_request` for a name that is empty, too long or ill-formed. */
export function requireName(name: string): string {
  if (isMemoryName(name)) return name;
  throw new AppError('invalid_request', `A memory name has 1 to ${MAX_MEMORY_NAME} well-formed characters.`);
}

/** @throws AppError `too_large` for a text over the limit. */
export function requireText(text: string): string {
  if (text.length <= MAX_MEMORY_TEXT) return text;
  throw new AppError('too_large', `A memory text or notice has at most ${MAX_MEMORY_TEXT} characters.`);
}

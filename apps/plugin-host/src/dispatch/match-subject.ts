import type { MatchSubject } from '@codedock/plugin-bridge';

/**
 * What a plugin's `match` is evaluated against: the principal as it travels, and the tool where there is one. A principal
 * that is missing or unreadable is nobody's: it holds for no list but `*`.
 */
export function matchSubjectOf(principal: Uint8Array, tool: string): MatchSubject {
  const { tenant, agent, mode } = membersOf(principal);
  return { tenant: text(tenant), agent: text(agent), mode: text(mode), ...(tool === '' ? {} : { tool }) };
}

function membersOf(principal: Uint8Array): { tenant?: unknown; agent?: unknown; mode?: unknown } {
  if (principal.length === 0) return {};
  try {
    const value: unknown = JSON.parse(Buffer.from(principal).toString('utf8'));
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

import type { JsonObject, ToolInvocation } from '@codedock/domain';
import type { MemoryOwner, MemoryScope, MemoryStore } from '@codedock/store';
import type { BuiltInFunction } from './builtin-tool.js';

const DEFAULT_RESULTS = 10;

/** The memory tools over the store, under their names. */
export function memoryTools(memory: MemoryStore): Readonly<Record<string, BuiltInFunction>> {
  return {
    memory_read: (args, invocation) =>
      owned(args, invocation, async (owner) => {
        const name = String(args['name']);
        const entry = await memory.get(owner, name);
        return entry === undefined
          ? { error: `There is no memory entry ${JSON.stringify(name)}.` }
          : { output: { ...entry } };
      }),
    memory_write: (args, invocation) =>
      owned(args, invocation, async (owner) => {
        const { name, updatedAt } = await memory.upsert(owner, String(args['name']), String(args['text']));
        return { output: { name, updatedAt } };
      }),
    memory_search: (args, invocation) =>
      owned(args, invocation, async (owner) => {
        const limit = typeof args['limit'] === 'number' ? args['limit'] : DEFAULT_RESULTS;
        const entries = await memory.search(owner, String(args['query']), limit);
        return { output: { entries: entries.map((entry) => ({ ...entry })) } };
      }),
  };
}

/** Whose memory the arguments mean; a session without a user has no user's memory. */
function owned(
  args: JsonObject,
  { tenantId, sessionId, principal }: ToolInvocation,
  use: (owner: MemoryOwner) => ReturnType<BuiltInFunction>,
): ReturnType<BuiltInFunction> {
  const scope = (args['scope'] ?? 'session') as MemoryScope;
  const owner = { session: sessionId, user: principal.actor, tenant: '' }[scope];
  if (owner === undefined)
    return Promise.resolve({ error: 'This session names no user, so there is no memory of its user.' });
  return use({ tenantId, scope, owner });
}

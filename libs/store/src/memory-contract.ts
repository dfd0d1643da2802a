export type MemoryScope = 'session' | 'user' | 'tenant';

/** Whose memory: a session id, an end user's name, or `''` for the tenant. */
export interface MemoryOwner {
  readonly tenantId: string;
  readonly scope: MemoryScope;
  readonly owner: string;
}

export interface MemoryEntry {
  readonly name: string;
  readonly text: string;
  readonly updatedAt: string;
}

/** An entry without its text. */
export interface ListedMemory {
  readonly name: string;
  /** Length of the text in Unicode characters. */
  readonly characters: number;
  readonly updatedAt: string;
}

/** Memory as people edit it; every change is audited, without the text. */
export interface MemoryEditing {
  /** By name; `after` is the name of the last one of the former page. Those whose name or text contains the query, ignoring case. */
  list(owner: MemoryOwner, page: { limit: number; after?: string; query?: string }): Promise<ListedMemory[]>;
  /** Throws conflict when it would be a new entry and there are `maxEntries`. */
  set(
    owner: MemoryOwner,
    entry: { name: string; text: string; maxEntries: number; actor: string },
  ): Promise<MemoryEntry>;
  /** False when there was none. */
  remove(owner: MemoryOwner, name: string, actor: string): Promise<boolean>;
}

export interface MemoryStore {
  get(owner: MemoryOwner, name: string): Promise<MemoryEntry | undefined>;
  upsert(owner: MemoryOwner, name: string, text: string): Promise<MemoryEntry>;
  /** Entries whose name or text contains the query, ignoring case, newest first. */
  search(owner: MemoryOwner, query: string, limit: number): Promise<MemoryEntry[]>;
}

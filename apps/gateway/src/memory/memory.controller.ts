import { AppError, isId } from '@codedock/domain';
import type { MemoryOwner } from '@codedock/store';
import { Body, Controller, Inject, Param, Query } from '@nestjs/common';
import { By, type Caller } from '../auth/caller.js';
import { Endpoint } from '../http/endpoint.js';
import { defined, toPageBy } from '../http/shapes.js';
import { notFound } from '../http/validation.js';
import { STORE, type Store } from '../tokens.js';
import {
  type ListMemory,
  listMemory,
  memoryEntry,
  memoryPage,
  type PutMemory,
  putMemory,
  type WhoseMemory,
  whoseMemory,
} from './memory.schema.js';
import { isMemoryName } from './memory-bounds.js';

const TAG = 'Memory';
/** Entries of one session, user or tenant that can be made here. */
const MAX_ENTRIES = 10_000;

/** What agents remember, as people see and mend it. */
@Controller('v1/memory')
export class MemoryController {
  constructor(@Inject(STORE) private readonly store: Store) {}

  @Endpoint('GET', '', {
    summary: 'List memory entries by name, without their texts',
    tag: TAG,
    scopes: ['runs', 'admin'],
    query: listMemory,
    answers: { 200: { description: 'A page of entries.', schema: memoryPage } },
    problems: ['not_found'],
  })
  async list(@By() caller: Caller, @Query() { limit, cursor, query, ...whose }: ListMemory) {
    const owner = await this.ownerOf(caller, whose);
    const page = { limit: limit + 1, ...defined({ after: cursor, query }) };
    return toPageBy(await this.store.memory.list(owner, page), limit, ({ name }) => name);
  }

  @Endpoint('GET', ':name', {
    summary: 'Get a memory entry',
    tag: TAG,
    scopes: ['runs', 'admin'],
    query: whoseMemory,
    answers: { 200: { description: 'The entry.', schema: memoryEntry } },
  })
  async get(@By() caller: Caller, @Param('name') name: string, @Query() whose: WhoseMemory) {
    const entry = await this.store.memory.get(await this.ownerOf(caller, whose), name);
    if (entry === undefined) throw notFound('memory entry', 'name');
    return entry;
  }

  @Endpoint('PUT', ':name', {
    summary: 'Set a memory entry; audited without its text',
    tag: TAG,
    scopes: ['runs', 'admin'],
    body: putMemory,
    answers: { 200: { description: 'The entry.', schema: memoryEntry } },
    problems: ['conflict'],
  })
  async put(@By() caller: Caller, @Param('name') name: string, @Body() { text, ...whose }: PutMemory) {
    if (!isMemoryName(name))
      throw new AppError('invalid_request', 'The name of a memory entry has 1 to 200 characters.');
    const owner = await this.ownerOf(caller, whose);
    return this.store.memory.set(owner, { name, text, maxEntries: MAX_ENTRIES, actor: caller.keyName });
  }

  @Endpoint('DELETE', ':name', {
    summary: 'Delete a memory entry; audited',
    tag: TAG,
    scopes: ['runs', 'admin'],
    query: whoseMemory,
    answers: { 204: { description: 'It is gone.' } },
  })
  async delete(@By() caller: Caller, @Param('name') name: string, @Query() whose: WhoseMemory): Promise<void> {
    const removed = await this.store.memory.remove(await this.ownerOf(caller, whose), name, caller.keyName);
    if (!removed) throw notFound('memory entry', 'name');
  }

  /** @throws AppError `not_found` for a session that the tenant does not have. */
  private async ownerOf({ tenantId }: Caller, { scope, owner = '' }: WhoseMemory): Promise<MemoryOwner> {
    if (scope === 'session') {
      if (!isId(owner)) throw notFound('session');
      await this.store.sessions.get(tenantId, owner);
    }
    return { tenantId, scope, owner };
  }
}

import {
  AppError,
  type CallSettled,
  type Clock,
  type ContextCompacted,
  type GateCall,
  type GatedCall,
  type GateSite,
  type HookRecord,
  type IdSource,
  isAppError,
  type JsonObject,
  type JsonValue,
  type Ledger,
  type NewLedgerEvent,
  type ResultSource,
  type RunSnapshot,
  type RunStart,
  type ScratchpadPatch,
  type ToolCall,
  type ToolResult,
  type Turn,
  type TurnReply,
  type Usage,
  wellFormedJson,
} from '@codedock/domain';
import type { AppendBatch, Appended, Changes, ScratchpadChange, SitedRecord } from '@codedock/store';
import { DELTA_LIMIT_BYTES, DeltaBuffer } from './delta-buffer.js';
import { type Fact, joined } from './fact.js';
import { FactsOf } from './facts-of.js';
import { RunBag } from './run-bag.js';

export interface RunLedgerOptions {
  readonly snapshot: RunSnapshot;
  readonly ids: IdSource;
  readonly clock: Clock;
  /** Stores one batch and pushes its events. */
  readonly append: (batch: AppendBatch) => Promise<Appended>;
  /** Called once when facts can no longer be stored: the run is not this attempt's any more. */
  readonly onLost: (error: unknown) => void;
  /** Told when a turn begins (or goes on) and when it is complete. */
  readonly onTurn?: (turn: Turn, phase: 'started' | 'completed') => void;
}

/** What was still on its way when an attempt ends, for the transaction that ends it. */
export interface LastFacts {
  readonly events: readonly NewLedgerEvent[];
  readonly changes: Changes;
}

interface Waiting {
  readonly fact: Fact;
  resolve(): void;
  reject(error: unknown): void;
}

interface GateNotes {
  readonly records: SitedRecord[];
  readonly patches: {
    readonly call: { readonly records: readonly HookRecord[] };
    readonly patch: ScratchpadPatch;
    readonly sent: JsonObject;
  }[];
}

/**
 * The ledger of one attempt. Facts are stored in the order of the calls, many in one statement: what is noted while a
 * statement is under way goes into the next one, so a slow database makes batches larger, not the run slower.
 */
export class RunLedger implements Ledger {
  readonly #options: RunLedgerOptions;
  readonly #factsOf: FactsOf;
  readonly #bag: RunBag;
  readonly #deltas: DeltaBuffer;
  #waiting: Waiting[] = [];
  #notes: GateNotes = { records: [], patches: [] };
  #newMetadata: JsonObject | undefined;
  #metadata: JsonObject;
  /** The statements under way; undefined while nothing is. */
  #storing: Promise<void> | undefined;
  #lost: { readonly error: unknown } | undefined;
  #closed = false;

  constructor(options: RunLedgerOptions) {
    this.#options = options;
    this.#factsOf = new FactsOf(options.snapshot, options.ids, options.clock);
    this.#bag = new RunBag(options.snapshot.scratchpad);
    this.#metadata = options.snapshot.metadata;
    this.#deltas = new DeltaBuffer((turn, text) => this.#noteDelta(turn, text));
  }

  /** The extensions' metadata as it is now. */
  get metadata(): JsonObject {
    return this.#metadata;
  }

  /** The plugins' bag as it is now. */
  get scratchpad(): JsonObject {
    return this.#bag.current;
  }

  gate({ turnId, callId }: { turnId?: string; callId?: string }, signal: AbortSignal): GateCall {
    const { snapshot } = this.#options;
    const site: GateSite = {
      tenantId: snapshot.tenantId,
      sessionId: snapshot.sessionId,
      runId: snapshot.runId,
      attempt: snapshot.attempt,
      ...(turnId === undefined ? {} : { turnId }),
      ...(callId === undefined ? {} : { callId }),
    };
    const records: HookRecord[] = [];
    const sent = this.#bag.current;
    return {
      site,
      principal: snapshot.principal,
      signal,
      scratchpad: sent,
      records,
      merge: (patch) => {
        if (this.#closed) return;
        this.#notes.patches.push({ call: { records }, patch, sent });
        this.#bag.merge(patch);
      },
      record: (record) => {
        records.push(record);
        if (!this.#closed) this.#notes.records.push({ record, site });
      },
    };
  }

  runStarted(start: RunStart): Promise<void> {
    return this.#note(this.#factsOf.runStarted(start));
  }

  turnStarted(turn: Turn, tools: readonly string[]): Promise<void> {
    this.#options.onTurn?.(turn, 'started');
    return this.#note(this.#factsOf.turnStarted(turn, tools));
  }

  turnResumed(turn: Turn): Promise<void> {
    this.#options.onTurn?.(turn, 'started');
    return this.#note(this.#factsOf.turnResumed(turn));
  }

  turnRestarted(turn: Turn, reason: 'attempt' | 'model_retry'): Promise<void> {
    if (reason === 'attempt') this.#options.onTurn?.(turn, 'started');
    return this.#note(this.#factsOf.turnRestarted(turn, reason));
  }

  contextCompacted(turn: Turn, compacted: ContextCompacted): Promise<void> {
    return this.#note(this.#factsOf.contextCompacted(turn, compacted));
  }

  usageRecorded(turn: Turn, usage: Usage): Promise<void> {
    return this.#note(this.#factsOf.usageRecorded(turn, usage));
  }

  assistantStarted(turn: Turn): Promise<void> {
    this.#deltas.flush();
    this.#deltas.rest();
    return this.#note(this.#factsOf.assistantStarted(turn));
  }

  assistantDelta(turn: Turn, text: string): void {
    if (!this.#closed) this.#deltas.add(turn, text);
  }

  assistantCompleted(turn: Turn, reply: TurnReply): Promise<void> {
    const noted = this.#note(this.#factsOf.assistantCompleted(turn, reply));
    this.#deltas.rest();
    return noted;
  }

  callGated(call: ToolCall, gated: GatedCall): Promise<void> {
    return this.#note(this.#factsOf.callGated(call, gated));
  }

  callSettled(settled: CallSettled): Promise<void> {
    return this.#note(this.#factsOf.callSettled(settled));
  }

  executionStarted(call: ToolCall, n: number, gated: GatedCall): Promise<void> {
    return this.#note(this.#factsOf.executionStarted(call, n, gated));
  }

  executionRetried(call: ToolCall, n: number, error: string): Promise<void> {
    return this.#note(this.#factsOf.executionRetried(call, n, error));
  }

  executionFinished(call: ToolCall, n: number, result: ToolResult, source: ResultSource): Promise<void> {
    return this.#note(this.#factsOf.executionFinished(call, n, result, source));
  }

  executionUnknown(call: ToolCall, n: number, error: string, result: ToolResult): Promise<void> {
    return this.#note(this.#factsOf.executionUnknown(call, n, error, result));
  }

  turnCompleted(turn: Turn): Promise<void> {
    this.#options.onTurn?.(turn, 'completed');
    return this.#note(this.#factsOf.turnCompleted(turn));
  }

  extensionEmitted(extension: string, name: string, payload: JsonValue): Promise<void> {
    return this.#note(this.#factsOf.extensionEmitted(extension, name, payload));
  }

  metadataChanged(metadata: JsonObject): void {
    if (this.#closed) return;
    this.#metadata = metadata;
    this.#newMetadata = metadata;
  }

  /** Stores everything noted so far. Rejects when it could not be stored. */
  async flush(): Promise<void> {
    this.#deltas.flush();
    if (this.#hasNotes()) this.#note({ events: [], changes: {} }).catch(() => undefined);
    while (this.#storing !== undefined) await this.#storing;
    if (this.#lost !== undefined) throw this.#lost.error;
  }

  /**
   * Ends the ledger: no further fact is taken, and what is still on its way is given to `write`, which stores it in the
   * transaction that ends or parks the run. Rejects as `write` does, or with the loss of the ledger.
   */
  async leave<T>(write: (last: LastFacts) => Promise<T>): Promise<T> {
    this.#deltas.flush();
    this.#deltas.rest();
    // A seal that is compared must be able to fail alone.
    if (this.#waiting.some(({ fact }) => comparesSeal(fact))) await this.flush().catch(() => undefined);
    this.#closed = true;
    const last = this.#take();
    while (this.#storing !== undefined) await this.#storing;
    try {
      if (this.#lost !== undefined) throw this.#lost.error;
      const { events, changes } = this.#batchOf(last.waiting, last.notes);
      const written = await write({ events, changes: changes ?? {} });
      for (const { resolve } of last.waiting) resolve();
      return written;
    } catch (error) {
      for (const { reject } of last.waiting) reject(error);
      throw error;
    }
  }

  /** Takes no further fact; what was not stored is gone. */
  close(error: unknown = leaseLost()): void {
    this.#deltas.rest();
    this.#closed = true;
    for (const { reject } of this.#take().waiting) reject(error);
  }

  #note(fact: Fact): Promise<void> {
    if (this.#lost !== undefined) return Promise.reject(this.#lost.error);
    if (this.#closed) return Promise.reject(leaseLost());
    this.#deltas.flush();
    return this.#enqueue(fact);
  }

  #noteDelta(turn: Turn, text: string): void {
    if (this.#lost !== undefined || this.#closed) return;
    const last = this.#waiting.at(-1);
    const former = last === undefined ? undefined : deltaOf(last.fact, turn);
    if (last !== undefined && former !== undefined && Buffer.byteLength(former + text) <= DELTA_LIMIT_BYTES) {
      this.#waiting[this.#waiting.length - 1] = { ...last, fact: this.#factsOf.assistantDelta(turn, former + text) };
      return;
    }
    this.#enqueue(this.#factsOf.assistantDelta(turn, text)).catch(() => undefined);
  }

  #enqueue(fact: Fact): Promise<void> {
    const noted = new Promise<void>((resolve, reject) => {
      this.#waiting.push({ fact, resolve, reject });
    });
    this.#storing ??= this.#store();
    return noted;
  }

  async #store(): Promise<void> {
    // What is noted in the same turn of the event loop belongs together.
    await new Promise(setImmediate);
    while (this.#waiting.length > 0 && this.#lost === undefined && !this.#closed) {
      const { waiting, notes } = this.#take();
      await this.#storeBatch(waiting, notes);
    }
    this.#storing = undefined;
  }

  async #storeBatch(waiting: readonly Waiting[], notes: GateNotes & { metadata?: JsonObject }): Promise<void> {
    try {
      await this.#append(waiting, notes);
      for (const { resolve } of waiting) resolve();
    } catch (error) {
      if (!isAppError(error, 'seal_broken')) return this.#lose(error, waiting);
      const [only] = waiting;
      if (waiting.length > 1) return this.#storeOneByOne(waiting, notes);
      // The notes of gates outlive the fact they wanted to ride with.
      this.#putBack(notes);
      only?.reject(error);
    }
  }

  /** One broken seal must not take along the facts that happened to share its statement. */
  async #storeOneByOne(waiting: readonly Waiting[], notes: GateNotes & { metadata?: JsonObject }): Promise<void> {
    const none: GateNotes = { records: [], patches: [] };
    for (const [index, each] of waiting.entries()) {
      if (this.#lost !== undefined) each.reject(this.#lost.error);
      else await this.#storeBatch([each], index === 0 ? notes : none);
    }
  }

  async #append(waiting: readonly Waiting[], notes: GateNotes & { metadata?: JsonObject }): Promise<void> {
    const { snapshot } = this.#options;
    const appended = await this.#options.append({
      tenantId: snapshot.tenantId,
      sessionId: snapshot.sessionId,
      run: { runId: snapshot.runId, token: snapshot.attempt },
      ...this.#batchOf(waiting, notes),
    });
    if (appended.scratchpad !== undefined) {
      this.#bag.settle(
        appended.scratchpad,
        this.#notes.patches.map(({ patch }) => patch),
      );
    }
  }

  #batchOf(waiting: readonly Waiting[], notes: GateNotes & { metadata?: JsonObject }): LastFacts {
    const riding: Changes = {
      ...(notes.records.length === 0 ? {} : { records: notes.records }),
      ...(notes.metadata === undefined && notes.patches.length === 0
        ? {}
        : {
            run: {
              ...(notes.metadata === undefined ? {} : { metadata: notes.metadata }),
              ...(notes.patches.length === 0 ? {} : { scratchpad: notes.patches.map(scratchpadChange) }),
            },
          }),
    };
    const batch = joined([...waiting.map(({ fact }) => fact), { events: [], changes: riding }]);
    // Models, tools and plugins may give text that no jsonb takes; a refused append would loop for ever.
    return wellFormedJson(batch as unknown as JsonValue) as unknown as LastFacts;
  }

  #hasNotes(): boolean {
    return this.#notes.records.length > 0 || this.#notes.patches.length > 0 || this.#newMetadata !== undefined;
  }

  #take(): { waiting: Waiting[]; notes: GateNotes & { metadata?: JsonObject } } {
    const taken = {
      waiting: this.#waiting,
      notes: { ...this.#notes, ...(this.#newMetadata === undefined ? {} : { metadata: this.#newMetadata }) },
    };
    this.#waiting = [];
    this.#notes = { records: [], patches: [] };
    this.#newMetadata = undefined;
    return taken;
  }

  #putBack(notes: GateNotes & { metadata?: JsonObject }): void {
    this.#notes.records.unshift(...notes.records);
    this.#notes.patches.unshift(...notes.patches);
    this.#newMetadata ??= notes.metadata;
  }

  #lose(error: unknown, waiting: readonly Waiting[]): void {
    const first = this.#lost === undefined;
    this.#lost ??= { error };
    for (const { reject } of [...waiting, ...this.#take().waiting]) reject(error);
    if (first) this.#options.onLost(error);
  }
}

function comparesSeal({ changes }: Fact): boolean {
  return changes.calls?.some(({ expect }) => expect !== undefined) ?? false;
}

function deltaOf({ events }: Fact, turn: Turn): string | undefined {
  const [event] = events;
  return event?.type === 'assistant.delta' && event.turnId === turn.id ? event.payload.text : undefined;
}

function scratchpadChange({ call, patch, sent }: GateNotes['patches'][number]): ScratchpadChange {
  return { patch, sent, gate: call.records[0]?.gate ?? 'notification' };
}

function leaseLost(): AppError {
  return new AppError('lease_lost', 'The run is no longer this attempt’s: nothing more is written.');
}

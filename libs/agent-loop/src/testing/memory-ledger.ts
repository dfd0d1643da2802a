import {
  AppError,
  type AskingCall,
  addUsage,
  type CallSettled,
  type ContextCompacted,
  type GateCall,
  type GatedCall,
  type HookRecord,
  type JsonObject,
  type JsonValue,
  type Ledger,
  type Message,
  mayMoveCall,
  type OpenTurn,
  type ResultSource,
  type RunSnapshot,
  type RunStart,
  type ScratchpadPatch,
  type ToolCall,
  type ToolCallState,
  type ToolResult,
  type Turn,
  type TurnReply,
  toolMessageOf,
  type Usage,
} from '@codedock/domain';

/** What a test may do when a fact is about to be stored: wait, or throw to refuse it. */
export type BeforeFact = (name: string, index: number) => void | Promise<void>;

/**
 * A ledger in memory that keeps its promises: facts are stored in order, calls move only where their states allow, a
 * broken seal is refused, and what is stored can be read back as the snapshot of a next attempt. Each stored fact is a
 * line of the journal.
 */
export class MemoryLedger implements Ledger {
  readonly records: HookRecord[] = [];
  readonly patches: ScratchpadPatch[] = [];
  readonly deltas: string[] = [];
  readonly replies: TurnReply[] = [];
  private stored: RunSnapshot;
  private queue: Promise<void> = Promise.resolve();
  private count = 0;

  constructor(
    snapshot: RunSnapshot,
    readonly journal: string[],
    private readonly before: BeforeFact = () => undefined,
  ) {
    this.stored = snapshot;
  }

  /** What a next attempt would read. */
  snapshot(attempt = this.stored.attempt + 1): RunSnapshot {
    return { ...this.stored, attempt };
  }

  /** The calls of the open turn, as stored. */
  get calls(): readonly ToolCall[] {
    return this.stored.openTurn?.calls ?? [];
  }

  /** All messages, as stored. */
  get messages(): readonly Message[] {
    return this.stored.messages;
  }

  /** Resolves when every fact so far is stored or refused. */
  async idle(): Promise<void> {
    for (let last: Promise<void> | undefined; last !== this.queue; ) {
      last = this.queue;
      await last;
    }
  }

  /** Stores that calls wait for a person. */
  wait(calls: readonly AskingCall[]): void {
    for (const { call } of calls) {
      // A call whose approval was voided waits already.
      if (this.call(call.id).state !== 'awaiting_approval') this.move(call.id, 'awaiting_approval');
    }
  }

  /** Stores a person's word. */
  decide(callId: string, state: 'approved' | 'denied', denialReason?: string): void {
    this.move(callId, state, denialReason === undefined ? {} : { denialReason });
  }

  /** Stores a person's word with arguments of his own, as the gateway does: sealed anew, and not yet gated. */
  approveEdited(callId: string, args: JsonValue, digest: string): void {
    const { gated } = this.call(callId);
    if (gated === undefined) throw new Error('the call was not gated');
    this.move(callId, 'approved', {
      arguments: args,
      editedArguments: args,
      gated: { ...gated, digest, gateVersion: 'edited' },
    });
  }

  /** Stores a change of the run that a next attempt reads. */
  amend(changes: Partial<RunSnapshot>): void {
    this.set(changes);
  }

  /** Changes a stored call behind the loop's back. */
  tamper(callId: string, changes: Partial<ToolCall>): void {
    this.change(callId, changes);
  }

  gate(site: { turnId?: string; callId?: string }, signal: AbortSignal): GateCall {
    const records: HookRecord[] = [];
    const { tenantId, sessionId, runId, attempt, principal, scratchpad } = this.stored;
    return {
      site: { tenantId, sessionId, runId, attempt, ...site },
      principal,
      signal,
      scratchpad,
      records,
      merge: (patch) => void this.patches.push(patch),
      record: (record) => {
        records.push(record);
        this.records.push(record);
      },
    };
  }

  runStarted(start: RunStart) {
    return this.fact('runStarted', '', () => this.set({ start }));
  }
  turnStarted(turn: Turn, tools: readonly string[]) {
    return this.fact('turnStarted', `${turn.iteration}`, () =>
      this.set({ turns: this.stored.turns + 1, openTurn: { ...turn, tools, calls: [] } }),
    );
  }
  turnResumed(turn: Turn) {
    return this.fact('turnResumed', `${turn.iteration}`);
  }
  turnRestarted(turn: Turn, reason: 'attempt' | 'model_retry') {
    return this.fact('turnRestarted', `${turn.iteration} ${reason}`);
  }
  contextCompacted(_turn: Turn, { checkpoint, usage, remaining }: ContextCompacted) {
    return this.fact('contextCompacted', `${remaining}`, () => {
      const { firstKept, ...stored } = checkpoint;
      const kept = this.stored.messages.findIndex(({ id }) => id === firstKept);
      if (kept < 0) throw new Error(`no message ${firstKept} is stored`);
      const own = ({ role, runId }: Message) => role === 'user' && runId === this.stored.runId;
      this.set({
        checkpoint: stored,
        messages: this.stored.messages.filter((message, index) => index >= kept || own(message)),
        usage: addUsage(this.stored.usage, usage),
      });
    });
  }
  usageRecorded(turn: Turn, usage: Usage) {
    return this.fact('usageRecorded', `${turn.iteration}`, () =>
      this.set({ usage: addUsage(this.stored.usage, usage) }),
    );
  }
  assistantStarted(turn: Turn) {
    return this.fact('assistantStarted', `${turn.iteration}`);
  }
  assistantDelta(_turn: Turn, text: string): void {
    this.fact('delta', JSON.stringify(text), () => void this.deltas.push(text)).catch(() => undefined);
  }
  assistantCompleted(_turn: Turn, reply: TurnReply) {
    return this.fact('assistantCompleted', reply.finishReason, () => {
      this.replies.push(reply);
      this.set({
        openTurn: { ...this.open(), reply: reply.message, calls: reply.calls },
        messages: [...this.stored.messages, reply.message],
        usage: addUsage(this.stored.usage, reply.usage),
        toolCalls: this.stored.toolCalls + reply.calls.length,
      });
    });
  }
  callGated(call: ToolCall, gated: GatedCall) {
    return this.fact('callGated', `${call.name} ${gated.decision}`, () => {
      const changes = { gated, arguments: call.arguments };
      if (this.call(call.id).state === call.state) this.change(call.id, changes);
      else this.move(call.id, call.state, changes);
    });
  }
  callSettled({ call, state, result, source, by }: CallSettled) {
    return this.fact('callSettled', `${call.name} ${state} ${source}${by === undefined ? '' : ` by ${by}`}`, () =>
      this.finish(call, state, result),
    );
  }
  executionStarted(call: ToolCall, n: number, gated: GatedCall) {
    return this.fact('executionStarted', `${call.name} ${n}`, () => {
      const seal = this.call(call.id).gated;
      if (seal?.digest !== gated.digest || seal.gateVersion !== gated.gateVersion) {
        throw new AppError('seal_broken', `The call ${call.id} is sealed differently.`);
      }
      this.move(call.id, 'executing', { executions: n });
    });
  }
  executionRetried(call: ToolCall, n: number, error: string) {
    return this.fact('executionRetried', `${call.name} ${n} ${error}`);
  }
  executionFinished(call: ToolCall, n: number, result: ToolResult, source: ResultSource) {
    const state = result.success ? 'succeeded' : 'failed';
    return this.fact('executionFinished', `${call.name} ${n} ${state} ${source}`, () =>
      this.finish(call, state, result),
    );
  }
  executionUnknown(call: ToolCall, n: number, _error: string, result: ToolResult) {
    return this.fact('executionUnknown', `${call.name} ${n}`, () => this.finish(call, 'unknown', result));
  }
  turnCompleted(turn: Turn) {
    return this.fact('turnCompleted', `${turn.iteration}`, () => {
      const { openTurn: _, ...rest } = this.stored;
      this.stored = rest;
    });
  }
  extensionEmitted(extension: string, name: string, payload: JsonValue) {
    return this.fact('extensionEmitted', `${extension} ${name} ${JSON.stringify(payload)}`);
  }
  metadataChanged(metadata: JsonObject): void {
    this.set({ metadata });
  }

  private fact(name: string, detail: string, store: () => void = () => undefined): Promise<void> {
    const index = this.count;
    this.count += 1;
    const stored = this.queue.then(async () => {
      await this.before(name, index);
      store();
      this.journal.push(detail === '' ? name : `${name} ${detail}`);
    });
    this.queue = stored.catch(() => undefined);
    return stored;
  }

  private set(changes: Partial<RunSnapshot>): void {
    this.stored = { ...this.stored, ...changes };
  }

  private open(): OpenTurn {
    if (this.stored.openTurn === undefined) throw new Error('no turn is open');
    return this.stored.openTurn;
  }

  private call(id: string): ToolCall {
    const { openTurn, retriedTurns = [] } = this.stored;
    const turns = openTurn === undefined ? retriedTurns : [openTurn, ...retriedTurns];
    const call = turns.flatMap(({ calls }) => calls).find((candidate) => candidate.id === id);
    if (call === undefined) throw new Error(`no call ${id} is stored`);
    return call;
  }

  private change(id: string, changes: Partial<ToolCall>): void {
    this.call(id);
    const changed = (turn: OpenTurn): OpenTurn => ({
      ...turn,
      calls: turn.calls.map((call) => (call.id === id ? { ...call, ...changes } : call)),
    });
    const { openTurn, retriedTurns } = this.stored;
    this.set({
      ...(openTurn === undefined ? {} : { openTurn: changed(openTurn) }),
      ...(retriedTurns === undefined ? {} : { retriedTurns: retriedTurns.map(changed) }),
    });
  }

  private move(id: string, to: ToolCallState, changes: Partial<ToolCall> = {}): void {
    const { state } = this.call(id);
    if (!mayMoveCall(state, to)) throw new Error(`a call may not go from ${state} to ${to}`);
    this.change(id, { ...changes, state: to });
  }

  private finish(call: ToolCall, state: ToolCallState, result: ToolResult): void {
    const stored = this.call(call.id);
    // A denial is stored by whoever decides; the runner adds its result.
    if (stored.state === state && stored.result === undefined) this.change(call.id, { result });
    else this.move(call.id, state, { result });
    const { sessionId, runId } = this.stored;
    const message = toolMessageOf(call, result, { sessionId, runId, createdAt: '2024-01-01T00:00:00.000Z' });
    this.set({ messages: [...this.stored.messages, message] });
  }
}

import {
  checkpointMessage,
  isAppError,
  type JsonObject,
  type LoopView,
  type MeasuredContext,
  type Message,
  type RunSnapshot,
  stopKindOf,
  type Turn,
  type Usage,
  wellFormedJson,
} from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import { Bounds } from './bounds.js';
import { withoutOrphans } from './compaction/plan-compaction.js';
import type { LoopPorts } from './loop-ports.js';

/** What changes while an attempt runs. Lists are replaced, never changed in place: hooks hold on to them. */
interface AttemptState {
  systemPrompt: string;
  hidden: readonly Message[];
  messages: readonly Message[];
  turn: Turn | undefined;
  /** Number of the current turn, or of the last one. */
  iteration: number;
  /** Of the checkpoint whose message opens `messages`. */
  checkpointId: string | undefined;
  measured: MeasuredContext | undefined;
  usage: Usage;
  toolCalls: number;
  metadata: JsonObject;
}

/** One attempt at a run: its snapshot, hooks and ports, and how far it is. */
export class Attempt {
  readonly bounds: Bounds;
  readonly state: AttemptState;

  constructor(
    readonly snapshot: RunSnapshot,
    readonly hooks: Hooks,
    readonly ports: LoopPorts,
    signal: AbortSignal,
  ) {
    this.bounds = new Bounds(signal);
    this.state = {
      systemPrompt: snapshot.start?.systemPrompt ?? snapshot.config.systemPrompt,
      hidden: snapshot.start?.hidden ?? [],
      messages: historyOf(snapshot),
      checkpointId: snapshot.checkpoint?.id,
      measured: snapshot.measured,
      turn: undefined,
      iteration: snapshot.openTurn === undefined ? snapshot.turns : snapshot.openTurn.iteration - 1,
      usage: snapshot.usage,
      toolCalls: snapshot.toolCalls,
      metadata: snapshot.metadata,
    };
  }

  /** RFC 3339, UTC. */
  get timestamp(): string {
    return new Date(this.ports.clock.now()).toISOString();
  }

  /** True once the run belongs to somebody else: nothing is appended any more. */
  private get fenced(): boolean {
    const { signal } = this.bounds;
    return stopKindOf(signal) === 'lease_lost' || isAppError(signal.reason, 'lease_lost');
  }

  /** A fact nothing depends on: not awaited. If it cannot be stored the attempt is over. */
  note(fact: Promise<void>): void {
    fact.catch((error: unknown) => this.bounds.close(error));
  }

  /** A fact that something depends on. */
  async commit(fact: Promise<void>, bounds: Bounds = this.bounds): Promise<void> {
    await bounds.race(fact);
    bounds.check();
  }

  /** Adds messages at the end of the history. */
  remember(...messages: readonly Message[]): void {
    this.state.messages = [...this.state.messages, ...messages];
  }

  /** What in-process hooks may look at now. */
  view(): LoopView {
    const { snapshot, state, ports } = this;
    return {
      run: {
        id: snapshot.runId,
        sessionId: snapshot.sessionId,
        tenantId: snapshot.tenantId,
        attempt: snapshot.attempt,
      },
      ...(state.turn === undefined ? {} : { turn: state.turn }),
      iteration: state.iteration,
      messages: state.messages,
      usage: state.usage,
      get metadata() {
        return state.metadata;
      },
      setMetadata: (metadata) => {
        if (this.fenced) return;
        state.metadata = wellFormedJson(metadata);
        ports.ledger.metadataChanged(state.metadata);
      },
      emit: (extension, name, payload) => {
        if (!this.fenced) this.note(ports.ledger.extensionEmitted(extension, name, wellFormedJson(payload)));
      },
    };
  }
}

/** What the model is shown of the stored history, from the checkpoint on. */
function historyOf({ checkpoint, messages, sessionId }: RunSnapshot): readonly Message[] {
  return checkpoint === undefined ? messages : [checkpointMessage(checkpoint, sessionId), ...withoutOrphans(messages)];
}

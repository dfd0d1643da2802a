import type { ToolCall, Usage } from '@codedock/domain';
import type { StoredRecord } from './audit-contract.js';
import type { RunView } from './run-contract.js';

/** Everything of a run that a waterfall is drawn from. */
export interface RunTrace {
  readonly run: RunView;
  readonly turns: readonly {
    readonly id: string;
    readonly iteration: number;
    readonly status: string;
    readonly usage: Usage;
    readonly startedAt: string;
    readonly completedAt?: string;
  }[];
  readonly calls: readonly ToolCall[];
  readonly executions: readonly {
    readonly callId: string;
    readonly n: number;
    readonly state: string;
    readonly startedAt: string;
    readonly endedAt?: string;
  }[];
  /** When the model was asked and had answered, by the ledger, in order. */
  readonly marks: readonly {
    readonly type: 'turn.started' | 'turn.resumed' | 'turn.restarted' | 'assistant.completed';
    readonly turnId: string;
    /** Of `turn.restarted`. */
    readonly reason?: string;
    readonly occurredAt: string;
  }[];
  /** In order; `occurredAt` is when they were stored. */
  readonly records: readonly StoredRecord[];
}

import type { Logger } from '@codedock/platform';
import { isServiceError } from '../grpc/status.js';
import type { HostApi } from '../host-calls/host-api-client.js';

const firstRetryMs = 100;
const longestRetryMs = 1_000;
const pollMs = 2_000;

/** What the administrators want, as the gateway keeps it. */
export interface Desired {
  readonly chainEpoch: number;
  readonly disabled: ReadonlySet<string>;
}

/** Reads the desired state again and again; the last one read stays in force while the gateway cannot be asked. */
export class DesiredState {
  private last: Desired | undefined;
  private timer: NodeJS.Timeout | undefined;
  private reading: Promise<Desired> | undefined;
  private failures = 0;
  private closed = false;

  /** `onChange` is awaited before the next reading. */
  constructor(
    private readonly api: Pick<HostApi, 'getDesired'>,
    private readonly instanceId: string,
    private readonly log: Logger,
    private readonly onChange: (desired: Desired) => Promise<void>,
  ) {}

  /** The last state read; undefined while none was. */
  get current(): Desired | undefined {
    return this.last;
  }

  /** 0 while no state was read. */
  get chainEpoch(): number {
    return this.last?.chainEpoch ?? 0;
  }

  /** Begins to read in the background. */
  start(): void {
    void this.tick();
  }

  /** Reads now. Rejects with the gateway's error. */
  refresh(): Promise<Desired> {
    this.reading ??= this.read().finally(() => {
      this.reading = undefined;
    });
    return this.reading;
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
  }

  private async tick(): Promise<void> {
    let waitMs = pollMs;
    try {
      await this.refresh();
      this.failures = 0;
    } catch (error) {
      if (this.failures++ === 0) {
        const reason = isServiceError(error) ? error.details : (error as Error).message;
        this.log.warn({ reason }, 'the desired state cannot be read from the gateway; trying again');
      }
      waitMs = this.last === undefined ? Math.min(firstRetryMs * 2 ** (this.failures - 1), longestRetryMs) : pollMs;
    }
    if (!this.closed) this.timer = setTimeout(() => void this.tick(), waitMs);
  }

  private async read(): Promise<Desired> {
    const { chainEpoch, disabled } = await this.api.getDesired({ instanceId: this.instanceId });
    const read: Desired = { chainEpoch, disabled: new Set(disabled) };
    const isNew = this.last === undefined || !isSame(this.last, read);
    this.last = read;
    if (isNew && !this.closed) await this.onChange(read);
    return read;
  }
}

function isSame(one: Desired, other: Desired): boolean {
  return (
    one.chainEpoch === other.chainEpoch &&
    one.disabled.size === other.disabled.size &&
    [...one.disabled].every((name) => other.disabled.has(name))
  );
}

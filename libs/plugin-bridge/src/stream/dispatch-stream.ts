import { deadlineSlackMs, type gate } from '@codedock/proto';
import { type ClientDuplexStream, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { callOnce, type UnaryResult } from '../client/unary.js';

type Result = UnaryResult<gate.GateAnswer>;

/** A call that waits for its answer. */
interface OpenCall {
  readonly request: gate.GateRequest;
  readonly endsAt: number;
  readonly signal: AbortSignal | undefined;
  settle(result: Result): void;
}

/** Payloads beyond this many bytes travel as calls of their own, so that they do not hold up the others. */
const LARGEST_ON_STREAM = 256 * 1024;
const LARGEST_ID = 0xffff_ffff;

/** Where a plugin-host is, as its replica knows it. */
export interface DispatchPeer {
  readonly client: Pick<gate.GateServiceClient, 'dispatch' | 'dispatchStream'>;
  readonly metadata: Metadata;
  readonly target: string;
  /** True while the current call belongs to a trace: it then is an RPC of its own, which instrumentation sees. */
  readonly traced?: (() => boolean) | undefined;
}

/**
 * Asks one plugin-host, all questions over one stream that is opened when first needed and anew after it broke. A call
 * ends as its RPC would have ended; calls that were open when the stream broke end with the stream's status.
 */
export class DispatchStream {
  private stream: ClientDuplexStream<gate.DispatchCall, gate.DispatchReply> | undefined;
  private readonly open = new Map<number, OpenCall>();
  private lastId = 0;
  private supported = true;

  constructor(private readonly peer: DispatchPeer) {}

  /** Asks once, for at most the request's budget and a slack; never rejects. Aborting the signal cancels it. */
  ask(request: gate.GateRequest, signal: AbortSignal | undefined): Promise<Result> {
    const { traced } = this.peer;
    const large = (request.envelope?.payload.length ?? 0) > LARGEST_ON_STREAM;
    const timeoutMs = request.budgetMs + deadlineSlackMs;
    if (!this.supported || large || traced?.()) return this.askAlone(request, timeoutMs, signal);
    const stream = this.opened();
    const id = this.nextId();
    return new Promise((resolve) => {
      const settle = (result: Result) => {
        this.open.delete(id);
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
        resolve(result);
      };
      const giveUp = (code: status, details: string) => {
        settle(failed(code, details));
        if (this.stream === stream) stream.write({ id });
      };
      const onAbort = () => giveUp(status.CANCELLED, 'the caller cancelled the call');
      const timer = setTimeout(
        () => giveUp(status.DEADLINE_EXCEEDED, `no answer within ${timeoutMs} ms`),
        timeoutMs,
      ).unref();
      this.open.set(id, { request, endsAt: performance.now() + timeoutMs, signal, settle });
      signal?.addEventListener('abort', onAbort, { once: true });
      stream.write({ id, request });
    });
  }

  /** Ends the stream; calls under way end as cancelled. */
  close(): void {
    this.stream?.cancel();
  }

  private askAlone(request: gate.GateRequest, timeoutMs: number, signal: AbortSignal | undefined): Promise<Result> {
    const { client, metadata, target } = this.peer;
    return callOnce<gate.GateRequest, gate.GateAnswer>(
      client.dispatch.bind(client),
      request,
      metadata,
      timeoutMs,
      signal,
      target,
    );
  }

  private opened(): ClientDuplexStream<gate.DispatchCall, gate.DispatchReply> {
    if (this.stream !== undefined) return this.stream;
    const stream = this.peer.client.dispatchStream(this.peer.metadata);
    this.stream = stream;
    stream.on('data', ({ id, answer, refusal }: gate.DispatchReply) => {
      const call = this.open.get(id);
      if (answer !== undefined) call?.settle({ kind: 'answered', value: answer });
      else
        call?.settle(failed(refusal?.code ?? status.INTERNAL, refusal?.details ?? 'neither an answer nor a refusal'));
    });
    stream.on('error', (error: ServiceError) => this.broke(stream, error.code, error.details));
    stream.on('end', () => this.broke(stream, status.UNAVAILABLE, 'the plugin-host ended the stream'));
    return stream;
  }

  private broke(stream: unknown, code: status, details: string): void {
    if (this.stream !== stream) return;
    this.stream = undefined;
    const calls = [...this.open.values()];
    this.open.clear();
    if (code !== status.UNIMPLEMENTED) {
      for (const call of calls) call.settle(failed(code, details));
      return;
    }
    // A host of a former version: its calls are made one by one, until this process starts anew.
    this.supported = false;
    for (const { request, endsAt, signal, settle } of calls) {
      void this.askAlone(request, Math.max(1, endsAt - performance.now()), signal).then(settle);
    }
  }

  private nextId(): number {
    do this.lastId = this.lastId >= LARGEST_ID ? 1 : this.lastId + 1;
    while (this.open.has(this.lastId));
    return this.lastId;
  }
}

function failed(code: status, details: string): Result {
  const error = Object.assign(new Error(details), { code, details, metadata: new Metadata() });
  return { kind: 'failed', error, headers: false, unsent: false };
}

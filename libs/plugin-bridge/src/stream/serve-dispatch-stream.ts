import type { gate } from '@codedock/proto';
import type { ServerDuplexStream } from '@grpc/grpc-js';

// One for all: capturing a stack per cancelled call would tell nothing.
const CANCELLED = new DOMException('the caller cancelled the call', 'AbortError');

/** How a host answers what comes over a stream. */
export interface DispatchService {
  /** Asks one gate; the signal fires when the caller gives up. */
  dispatch(request: gate.GateRequest, signal: AbortSignal): Promise<gate.GateAnswer>;
  /** The status of a call that was rejected with this error; details are shown to the caller. */
  refusalOf(error: unknown): { readonly code: number; readonly details: string };
}

/** A stream being served. */
export interface ServedDispatches {
  /** Ends the stream after the answers of the calls that are open. */
  end(): void;
  /** Settles when the stream is over, whoever ended it. */
  readonly over: Promise<void>;
}

/** Serves `DispatchStream`: the other end of what `DispatchStream` of this package does. */
export function serveDispatchStream(
  stream: ServerDuplexStream<gate.DispatchCall, gate.DispatchReply>,
  service: DispatchService,
): ServedDispatches {
  const open = new Map<number, AbortController>();
  let ending = false;
  let gone = false;
  const endWhenIdle = () => {
    if (ending && open.size === 0 && !gone) stream.end();
  };
  const reply = (id: number, call: AbortController, answer: Omit<gate.DispatchReply, 'id'>) => {
    // A cancelled call's id may be another call's by now.
    if (open.get(id) !== call) return;
    open.delete(id);
    if (gone) return;
    stream.write({ id, ...answer });
    endWhenIdle();
  };
  stream.on('data', ({ id, request }: gate.DispatchCall) => {
    if (request === undefined) {
      open.get(id)?.abort(CANCELLED);
      open.delete(id);
      endWhenIdle();
      return;
    }
    const call = new AbortController();
    open.set(id, call);
    service.dispatch(request, call.signal).then(
      (answer) => reply(id, call, { answer, refusal: undefined }),
      (error: unknown) => reply(id, call, { answer: undefined, refusal: { ...service.refusalOf(error) } }),
    );
  });
  const end = () => {
    ending = true;
    endWhenIdle();
  };
  const over = new Promise<void>((resolve) => {
    const drop = () => {
      gone = true;
      for (const call of open.values()) call.abort(CANCELLED);
      open.clear();
      resolve();
    };
    stream.on('cancelled', drop);
    stream.on('error', drop);
    stream.on('finish', resolve);
  });
  stream.on('end', end);
  return { end, over };
}

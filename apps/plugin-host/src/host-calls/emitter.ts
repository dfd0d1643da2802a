import { AppError, LEDGER_EVENT_TYPES } from '@codedock/domain';
import { isPort, maxPayloadBytes, type plugin } from '@codedock/proto';

/** How often an event may lead to another. */
const maxDepth = 2;
const eventsPerSecond = 50;
const maxNameCharacters = 128;

const ledgerEvents: ReadonlySet<string> = new Set(LEDGER_EVENT_TYPES);
const directions: ReadonlySet<string> = new Set([
  'input/handled',
  'input/blocked',
  'run/blocked',
  'run/aborted',
  'tools/denied',
  'tools/ask',
  'tools/skipped',
]);

const noBytes = Buffer.alloc(0);

/** Hands an event to the subscribers of its name, but to one plugin. */
export type Deliver = (event: plugin.Envelope, except: string, emitDepth: number) => void;

/** Events of one plugin for other plugins of this replica: limited in rate and depth, and never a question. */
export class Emitter {
  private windowStart = 0;
  private inWindow = 0;

  constructor(
    private readonly plugin: string,
    private readonly deliver: Deliver,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /**
   * Delivers, or refuses. `principal` is that of the call the event is about: who is not to see it, does not.
   * @throws AppError saying why.
   */
  emit(event: plugin.Envelope, depth: number, principal: Buffer = noBytes): void {
    const { type } = event;
    if (type === '' || type.length > maxNameCharacters) {
      throw new AppError('invalid_request', `Emit: the type must have 1 to ${maxNameCharacters} characters`);
    }
    if (isPort(type) || directions.has(type) || ledgerEvents.has(type)) {
      throw new AppError('invalid_request', `Emit: "${type}" is a name of the product; choose another type`);
    }
    if (event.payload.length > maxPayloadBytes)
      throw new AppError('too_large', `Emit: the payload is over ${maxPayloadBytes} bytes`);
    if (depth > maxDepth)
      throw new AppError(
        'invalid_request',
        `Emit: "${type}" was emitted while handling emitted events ${maxDepth} deep; stop the cycle`,
      );
    const now = this.now();
    if (now - this.windowStart >= 1_000) {
      this.windowStart = now;
      this.inWindow = 0;
    }
    if (++this.inWindow > eventsPerSecond)
      throw new AppError('rate_limited', `Emit: more than ${eventsPerSecond} events a second; emit less often`);
    this.deliver({ ...event, capability: noBytes, principal, context: noBytes }, this.plugin, depth);
  }
}

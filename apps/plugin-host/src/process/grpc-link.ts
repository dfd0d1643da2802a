import { AppError } from '@codedock/domain';
import { deadlineSlackMs, plugin } from '@codedock/proto';
import * as grpc from '@grpc/grpc-js';
import { Broker } from './broker.js';
import type { Identity } from './certificate.js';
import { delay } from './delay.js';
import { type Handshake, parseHandshake } from './handshake.js';
import { PluginChannel } from './plugin-channel.js';
import type { LinkCall, LinkDone, LinkResult, PluginLink } from './plugin-link.js';
import { describeExit, type PluginProcess } from './plugin-process.js';
import { within } from './within.js';

const exitGraceMs = 200;
const healthTimeoutMs = 5_000;
const noMetadata = new grpc.Metadata();
const noBytes = Buffer.alloc(0);

/** What a gRPC link is made of. */
export interface GrpcLinkSpec {
  readonly process: PluginProcess;
  /** Private folder for brokered sockets. */
  readonly directory: string;
  /** Absent without AutoMTLS. */
  readonly identity: Identity | undefined;
  readonly startTimeoutMs: number;
  /** Milliseconds of the start time-out that are left. */
  left(): number;
  readonly hostService: plugin.HostServer;
  /** The plugin's broker is closed for good. */
  onConnectionLost(reason: string): void;
}

/** go-plugin's gRPC transport: handshake line, health, broker with the Host service, Bootstrap. */
export class GrpcLink implements PluginLink {
  readonly answersEvents = true;
  private channel: PluginChannel | undefined;
  private broker: Broker | undefined;
  private announced: Handshake | undefined;

  constructor(private readonly spec: GrpcLinkSpec) {}

  async connect(): Promise<plugin.Manifest> {
    const { process, identity, directory, startTimeoutMs, left } = this.spec;
    const line = await within(
      process.handshakeLine(),
      left(),
      () =>
        `it printed no handshake within ${startTimeoutMs} ms and was killed; it must print its handshake line on stdout`,
    );
    if (line === undefined) throw await describeMissingHandshake(process);
    this.announced = parseHandshake(line, identity !== undefined);
    const channel = new PluginChannel(this.announced, identity);
    this.channel = channel;
    const ended = process.exited.then((exit): never => {
      throw new AppError(
        'plugin_refused',
        `it ended (${describeExit(exit)}) after its handshake, before it had answered Bootstrap; it has to serve from its handshake on`,
      );
    });
    ended.catch(() => undefined);
    await unlessEnded(ended, channel.checkHealth(Math.min(healthTimeoutMs, left())));
    channel.readOutput((chunk) => process.writeOutput(chunk));
    this.broker = new Broker(
      channel.broker,
      directory,
      () => channel.serverCredentials(),
      (reason) => this.spec.onConnectionLost(reason),
    );
    const hostServerId = await this.broker.serve((server) =>
      server.addService(plugin.HostService, this.spec.hostService),
    );
    return unlessEnded(ended, this.bootstrap(channel, hostServerId));
  }

  onEvent(envelope: plugin.Envelope, timeoutMs: number, done: LinkDone<plugin.Envelope>): LinkCall {
    return this.requireChannel().plugin.onEvent(
      envelope,
      noMetadata,
      { deadline: Date.now() + timeoutMs + deadlineSlackMs },
      (error, reply) => done(error === null ? { kind: 'answered', reply } : classified(error, timeoutMs)),
    );
  }

  deliver(envelope: plugin.Envelope, timeoutMs: number, done: LinkDone<plugin.Envelope>): LinkCall {
    return this.onEvent(envelope, timeoutMs, done);
  }

  executeMethod(input: plugin.MethodInput, timeoutMs: number, done: LinkDone<plugin.MethodResult>): LinkCall {
    return this.requireChannel().plugin.executeMethod(
      input,
      noMetadata,
      { deadline: Date.now() + timeoutMs + deadlineSlackMs },
      (error, reply) => done(error === null ? { kind: 'answered', reply } : classified(error, timeoutMs)),
    );
  }

  /** Where the plugin listens; undefined before it said so. */
  get handshake(): Handshake | undefined {
    return this.announced;
  }

  /** Whether what its code prints has a way to this host. */
  get takesPrints(): boolean {
    return this.requireChannel().takesPrints;
  }

  callUnknown(timeoutMs: number): Promise<string> {
    const path = '/codedock.plugin.v1.Plugin/NotYetInvented';
    const bytes = (value: Buffer) => value;
    return new Promise((resolve) => {
      const options = { deadline: Date.now() + timeoutMs };
      this.requireChannel().plugin.makeUnaryRequest(path, bytes, bytes, noBytes, noMetadata, options, (error) => {
        if (error?.code === grpc.status.UNIMPLEMENTED) resolve('');
        else
          resolve(
            `it answered the unknown call ${path} with ${error === null ? 'OK' : `gRPC code ${error.code} (${error.details})`}; answer UNIMPLEMENTED (12)`,
          );
      });
    });
  }

  async shutdown(timeoutMs: number): Promise<void> {
    this.broker?.endStream();
    await this.channel?.shutdown(timeoutMs);
  }

  async close(): Promise<void> {
    this.broker?.close();
    this.channel?.close();
  }

  private bootstrap(channel: PluginChannel, hostServerId: number): Promise<plugin.Manifest> {
    const timeoutMs = this.spec.left();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        call.cancel();
        reject(
          new AppError(
            'plugin_refused',
            `it did not answer Bootstrap within the start time-out of ${this.spec.startTimeoutMs} ms; do slow work after Bootstrap`,
          ),
        );
      }, timeoutMs);
      const call = channel.plugin.bootstrap(
        { hostServerId },
        noMetadata,
        { deadline: Date.now() + timeoutMs + deadlineSlackMs },
        (error, manifest) => {
          clearTimeout(timer);
          if (error === null) resolve(manifest);
          else reject(new AppError('plugin_refused', describeBootstrapError(error)));
        },
      );
    });
  }

  private requireChannel(): PluginChannel {
    if (this.channel === undefined) throw new AppError('invariant_broken', 'a generation has no connection');
    return this.channel;
  }
}

/** The outcome of a step, or the end of the process: a connection breaks a moment before that end is known. */
async function unlessEnded<T>(ended: Promise<never>, step: Promise<T>): Promise<T> {
  try {
    return await Promise.race([ended, step]);
  } catch (error) {
    await Promise.race([ended, delay(exitGraceMs)]);
    throw error;
  }
}

async function describeMissingHandshake(process: PluginProcess): Promise<AppError> {
  const exit = await Promise.race([process.exited, delay(exitGraceMs)]);
  if (exit === undefined)
    return new AppError('plugin_refused', 'it closed its stdout without a handshake; print the handshake line first');
  return new AppError(
    'plugin_refused',
    `it ended (${describeExit(exit)}) before the handshake; run it from a shell to see why, with CODEDOCK_PLUGIN set`,
  );
}

function classified(error: grpc.ServiceError, timeoutMs: number): LinkResult<never> {
  const reason = error.details || error.message;
  switch (error.code) {
    case grpc.status.DEADLINE_EXCEEDED:
      return {
        kind: 'failed',
        outcome: 'timeout',
        reason: `no answer within ${Math.round(timeoutMs)} ms`,
        mayBeEnd: false,
      };
    case grpc.status.RESOURCE_EXHAUSTED:
      return {
        kind: 'failed',
        outcome: /larger than max/i.test(reason) ? 'oversize' : 'error',
        reason,
        mayBeEnd: false,
      };
    case grpc.status.UNAVAILABLE:
      return { kind: 'failed', outcome: 'unreachable', reason, mayBeEnd: true };
    case grpc.status.CANCELLED:
    case grpc.status.INTERNAL:
      return { kind: 'failed', outcome: 'error', reason, mayBeEnd: true };
    default:
      return { kind: 'failed', outcome: 'error', reason, mayBeEnd: false };
  }
}

function describeBootstrapError({ code, details }: grpc.ServiceError): string {
  if (code === grpc.status.UNIMPLEMENTED)
    return `it does not serve codedock.plugin.v1.Plugin (${details}); build it with a CodeDock plugin SDK`;
  if (details.includes('valid for localhost, not unused'))
    return 'it cannot call this host back over TLS, as no go-plugin library before 1.4.4 can; build it with a newer one, or set "autoMtls": false in its plugin.json';
  return `its Bootstrap failed with gRPC code ${code}: ${details}`;
}

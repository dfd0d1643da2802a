import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { AppError } from '@codedock/domain';
import type { Logger } from '@codedock/platform';
import { deadlineSlackMs, plugin, withoutCallerStack } from '@codedock/proto';
import * as grpc from '@grpc/grpc-js';
import type { Candidate } from '../discovery/scanner.js';
import { CallsInFlight, type OpenCall } from '../host-calls/calls-in-flight.js';
import type { ToolRegistry } from '../host-calls/tool-registry.js';
import { Broker } from '../process/broker.js';
import { createIdentity } from '../process/certificate.js';
import { childEnvironment } from '../process/child-env.js';
import type { Guardian } from '../process/guardian.js';
import { parseHandshake } from '../process/handshake.js';
import { PluginChannel } from '../process/plugin-channel.js';
import { describeExit, type Exit, PluginProcess } from '../process/plugin-process.js';
import { createSocketDirectory, removeSocketDirectory } from '../process/socket-directory.js';
import { terminate } from '../process/terminator.js';
import { checkedManifest } from './checked-manifest.js';

const exitGraceMs = 200;
const lostConnectionGraceMs = 100;
const healthTimeoutMs = 5_000;

/** What starting a generation needs beside the candidate. */
export interface GenerationSpec {
  readonly candidate: Candidate;
  /** Counts the starts of this plugin within one host process, from 1. */
  readonly number: number;
  readonly startTimeoutMs: number;
  readonly hostEnvironment: Readonly<Record<string, string | undefined>>;
  readonly guardian: Guardian;
  readonly log: Logger;
  readonly tools: ToolRegistry;
  /** Gives the start up and ends the process. */
  readonly signal: AbortSignal;
  /** Makes the Host service this process calls back on. */
  hostService(calls: CallsInFlight): plugin.HostServer;
}

/** What identifies the code and settings behind an answer. */
export interface PluginIdentity {
  readonly version: string;
  readonly policyVersion: string;
  readonly checksum: string;
  readonly configDigest: string;
  readonly generation: number;
}

/** How a call to a plugin ended. Times are judged by this host's clock, whatever the plugin or the transport says. */
export type CallResult<Reply> =
  | { readonly kind: 'answered'; readonly reply: Reply }
  | {
      readonly kind: 'failed';
      readonly outcome: 'timeout' | 'crashed' | 'error' | 'oversize' | 'unreachable' | 'cancelled';
      readonly reason: string;
    };

type Start<Reply> = (callback: (error: grpc.ServiceError | null, reply: Reply) => void) => grpc.ClientUnaryCall;

const noMetadata = new grpc.Metadata();

/** One process of a plugin, from its start to its end. */
export class Generation {
  readonly calls = new CallsInFlight();
  manifest: plugin.Manifest = plugin.Manifest.create();
  /** When it became ready, in milliseconds of the host's clock. */
  readyAt = 0;
  private readonly failOpenCalls = new Set<(reason: string) => void>();
  private process: PluginProcess | undefined;
  private channel: PluginChannel | undefined;
  private broker: Broker | undefined;
  private socketDirectory: string | undefined;
  private stopping = false;
  private checksum = '';
  private lostReason: string | undefined;
  private onIdle: (() => void) | undefined;

  private constructor(private readonly spec: GenerationSpec) {}

  /**
   * Starts a process and brings it up to the point where it answers: handshake, health, Bootstrap, within the start
   * time-out. @throws AppError `plugin_refused` with cause, remedy, exit and last stderr lines; nothing is left then.
   */
  static async start(spec: GenerationSpec): Promise<Generation> {
    const generation = new Generation(spec);
    try {
      await generation.bringUp();
      return generation;
    } catch (error) {
      const process = generation.process;
      const ended = process === undefined ? '' : await generation.describeFailedStart(process);
      await generation.discard();
      if (error instanceof AppError) throw new AppError(error.code, `${error.message}${ended}`, { cause: error.cause });
      throw new AppError('plugin_refused', `it could not be started: ${(error as Error).message}${ended}`, {
        cause: error,
      });
    }
  }

  /** How the process ended. Pending while it lives. */
  get exited(): Promise<Exit> {
    return this.requireProcess().exited;
  }

  get pid(): number {
    return this.process?.pid ?? 0;
  }

  get number(): number {
    return this.spec.number;
  }

  /** Tools this process has registered so far. */
  get tools(): ToolRegistry {
    return this.spec.tools;
  }

  /** Whether calls can be made. */
  get alive(): boolean {
    return this.process?.alive === true && this.lostReason === undefined;
  }

  get identity(): PluginIdentity {
    const { candidate, number } = this.spec;
    const { version, policyVersion } = this.manifest;
    return {
      version,
      policyVersion: policyVersion || sha256(`${version}|${this.checksum}|${candidate.configDigest}`).slice(0, 16),
      checksum: this.checksum,
      configDigest: candidate.configDigest,
      generation: number,
    };
  }

  /** What is known of an ended process: exit and last stderr lines. */
  async describeEnd(): Promise<string> {
    const process = this.requireProcess();
    return `${describeExit(await process.exited)}${process.describeOutput()}`;
  }

  /** Asks a gate or delivers an event; the signal cancels it in the plugin. */
  onEvent(
    envelope: plugin.Envelope,
    timeoutMs: number,
    { emitDepth = 0, signal }: { readonly emitDepth?: number; readonly signal?: AbortSignal | undefined } = {},
  ): Promise<CallResult<plugin.Envelope>> {
    return this.call(
      { sessionId: envelope.sessionId, runId: envelope.runId, capability: envelope.capability, emitDepth },
      timeoutMs,
      (callback) =>
        this.requireChannel().plugin.onEvent(
          envelope,
          noMetadata,
          { deadline: Date.now() + timeoutMs + deadlineSlackMs },
          callback,
        ),
      signal,
    );
  }

  /** Executes a tool; the signal cancels it in the plugin. */
  executeMethod(
    input: plugin.MethodInput,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<CallResult<plugin.MethodResult>> {
    return this.call(
      { sessionId: input.sessionId, runId: input.runId, capability: input.capability, emitDepth: 0 },
      timeoutMs,
      (callback) =>
        this.requireChannel().plugin.executeMethod(
          input,
          noMetadata,
          { deadline: Date.now() + timeoutMs + deadlineSlackMs },
          callback,
        ),
      signal,
    );
  }

  /** Waits until no call is open, at most the given time. */
  async drain(timeoutMs: number): Promise<void> {
    if (this.calls.size === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Ends the process within 4 s and removes everything it had. */
  async stop(): Promise<void> {
    this.stopping = true;
    const { process, channel } = this;
    if (process !== undefined && channel !== undefined) {
      this.broker?.endStream();
      await terminate(process, (timeoutMs) => channel.shutdown(timeoutMs));
    }
    await this.discard();
  }

  private async bringUp(): Promise<void> {
    const { candidate, startTimeoutMs, log } = this.spec;
    const deadline = Date.now() + startTimeoutMs;
    const left = () => Math.max(deadline - Date.now(), 1);
    const [identity, directory] = await Promise.all([
      candidate.settings.autoMtls ? createIdentity() : undefined,
      createSocketDirectory(),
    ]);
    this.socketDirectory = directory;
    this.checksum = await checksumOf(candidate.files);
    this.process = await PluginProcess.start(
      {
        command: candidate.command,
        folder: candidate.folder,
        environment: childEnvironment(this.spec.hostEnvironment, candidate.settings.env, {
          socketDirectory: directory,
          pluginName: candidate.name,
          config: JSON.stringify(candidate.settings.config),
          ...(identity === undefined ? {} : { clientCertificate: identity.certificatePem }),
        }),
      },
      this.spec.guardian,
      log,
    );
    const process = this.process;
    void process.exited.then((exit) => this.onProcessEnd(exit));
    const giveUp = () => process.killGroup();
    if (this.spec.signal.aborted) giveUp();
    this.spec.signal.addEventListener('abort', giveUp, { once: true });
    const line = await within(
      process.handshakeLine(),
      left(),
      () =>
        `it printed no handshake within ${startTimeoutMs} ms and was killed; it must print its handshake line on stdout`,
    );
    if (line === undefined) throw await this.describeMissingHandshake(process);
    const handshake = parseHandshake(line, candidate.settings.autoMtls);
    const channel = new PluginChannel(handshake, identity);
    this.channel = channel;
    const ended = process.exited.then((exit): never => {
      throw new AppError('plugin_refused', `it ended (${describeExit(exit)}) while it was being connected`);
    });
    ended.catch(() => undefined);
    await Promise.race([ended, channel.checkHealth(Math.min(healthTimeoutMs, left()))]);
    channel.readOutput((chunk) => process.writeOutput(chunk));
    this.broker = new Broker(
      channel.broker,
      directory,
      () => channel.serverCredentials(),
      (reason) => this.onConnectionLost(reason),
    );
    const hostServerId = await this.broker.serve((server) =>
      server.addService(plugin.HostService, this.spec.hostService(this.calls)),
    );
    this.manifest = checkedManifest(await Promise.race([ended, this.bootstrap(hostServerId, left())]), log);
    this.spec.signal.removeEventListener('abort', giveUp);
    this.readyAt = Date.now();
  }

  private bootstrap(hostServerId: number, timeoutMs: number): Promise<plugin.Manifest> {
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
      const call = this.requireChannel().plugin.bootstrap(
        { hostServerId },
        noMetadata,
        { deadline: Date.now() + timeoutMs + deadlineSlackMs },
        (error, manifest) => {
          clearTimeout(timer);
          if (error === null) resolve(manifest);
          else if (error.code === grpc.status.UNIMPLEMENTED)
            reject(
              new AppError(
                'plugin_refused',
                'it does not serve codedock.plugin.v1.Plugin; build it with a CodeDock plugin SDK',
              ),
            );
          else
            reject(
              new AppError('plugin_refused', `its Bootstrap failed with gRPC code ${error.code}: ${error.details}`),
            );
        },
      );
    });
  }

  private async describeMissingHandshake(process: PluginProcess): Promise<AppError> {
    const exit = await Promise.race([process.exited, delay(exitGraceMs)]);
    if (exit === undefined)
      return new AppError('plugin_refused', 'it closed its stdout without a handshake; print the handshake line first');
    return new AppError(
      'plugin_refused',
      `it ended (${describeExit(exit)}) before the handshake; run it from a shell to see why, with CODEDOCK_PLUGIN set`,
    );
  }

  private async describeFailedStart(process: PluginProcess): Promise<string> {
    process.killGroup();
    await process.exited;
    return process.describeOutput();
  }

  private call<Reply>(
    open: OpenCall,
    timeoutMs: number,
    start: Start<Reply>,
    signal?: AbortSignal,
  ): Promise<CallResult<Reply>> {
    return new Promise((resolve) => {
      let settled = false;
      const settle = (result: CallResult<Reply>) => {
        if (settled) return;
        settled = true;
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
        this.failOpenCalls.delete(onProcessEnd);
        this.calls.end(open);
        if (this.calls.size === 0) this.onIdle?.();
        resolve(result);
      };
      const onProcessEnd = (reason: string) => settle({ kind: 'failed', outcome: 'crashed', reason });
      const onAbort = () => {
        settle({ kind: 'failed', outcome: 'cancelled', reason: 'the caller cancelled the call' });
        call.cancel();
      };
      const timer = setTimeout(() => {
        settle({ kind: 'failed', outcome: 'timeout', reason: `no answer within ${Math.round(timeoutMs)} ms` });
        call.cancel();
      }, timeoutMs);
      this.calls.begin(open);
      this.failOpenCalls.add(onProcessEnd);
      signal?.addEventListener('abort', onAbort);
      const call = withoutCallerStack(() =>
        start((error, reply) => {
          if (error === null) settle({ kind: 'answered', reply });
          else if (!settled) void this.classify(error, timeoutMs).then(settle);
        }),
      );
      if (signal?.aborted) onAbort();
    });
  }

  private async classify(error: grpc.ServiceError, timeoutMs: number): Promise<CallResult<never>> {
    const text = error.details || error.message;
    switch (error.code) {
      case grpc.status.DEADLINE_EXCEEDED:
        return { kind: 'failed', outcome: 'timeout', reason: `no answer within ${Math.round(timeoutMs)} ms` };
      case grpc.status.RESOURCE_EXHAUSTED:
        return { kind: 'failed', outcome: /larger than max/i.test(text) ? 'oversize' : 'error', reason: text };
      case grpc.status.UNAVAILABLE:
      case grpc.status.CANCELLED:
      case grpc.status.INTERNAL:
        if ((await Promise.race([this.exited, delay(lostConnectionGraceMs)])) !== undefined) {
          return { kind: 'failed', outcome: 'crashed', reason: `the plugin ended: ${await this.describeEnd()}` };
        }
        return {
          kind: 'failed',
          outcome: error.code === grpc.status.UNAVAILABLE ? 'unreachable' : 'error',
          reason: text,
        };
      default:
        return { kind: 'failed', outcome: 'error', reason: text };
    }
  }

  private onProcessEnd(exit: Exit): void {
    const reason = `the plugin ended: ${describeExit(exit)}${this.process?.describeOutput() ?? ''}`;
    for (const fail of [...this.failOpenCalls]) fail(reason);
    this.channel?.close();
  }

  /** A go-plugin broker that has lost its stream never comes back, so the process is of no use any more. */
  private onConnectionLost(reason: string): void {
    if (this.stopping || this.lostReason !== undefined) return;
    this.lostReason = reason;
    void Promise.race([this.exited, delay(lostConnectionGraceMs)]).then((exit) => {
      if (exit !== undefined || this.stopping) return;
      this.spec.log.error(
        { reason },
        'the connection to a plugin was lost while its process lives; ending the process',
      );
      this.requireProcess().killGroup();
    });
  }

  private async discard(): Promise<void> {
    this.stopping = true;
    this.process?.killGroup();
    await this.process?.exited;
    this.broker?.close();
    this.channel?.close();
    if (this.socketDirectory !== undefined) await removeSocketDirectory(this.socketDirectory);
  }

  private requireProcess(): PluginProcess {
    if (this.process === undefined) throw new AppError('invariant_broken', 'a generation has no process');
    return this.process;
  }

  private requireChannel(): PluginChannel {
    if (this.channel === undefined) throw new AppError('invariant_broken', 'a generation has no connection');
    return this.channel;
  }
}

async function checksumOf(files: readonly string[]): Promise<string> {
  const hash = createHash('sha256');
  for (const file of files) hash.update(await readFile(file));
  return hash.digest('hex');
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function delay(milliseconds: number): Promise<undefined> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds, undefined).unref();
  });
}

async function within<T>(value: Promise<T>, timeoutMs: number, message: () => string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new AppError('plugin_refused', message())), timeoutMs);
  });
  try {
    return await Promise.race([value, late]);
  } finally {
    clearTimeout(timer);
  }
}

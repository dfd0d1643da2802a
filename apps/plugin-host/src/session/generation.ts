import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { AppError } from '@codedock/domain';
import { activeTrace, type Logger, redactText } from '@codedock/platform';
import { isPort, plugin, withoutCallerStack } from '@codedock/proto';
import type { Candidate } from '../discovery/scanner.js';
import { CallsInFlight, type OpenCall } from '../host-calls/calls-in-flight.js';
import type { HostCalls } from '../host-calls/host-calls.js';
import { hostService } from '../host-calls/host-service.js';
import type { ToolRegistry } from '../host-calls/tool-registry.js';
import { createIdentity, type Identity } from '../process/certificate.js';
import { childEnvironment } from '../process/child-env.js';
import { delay } from '../process/delay.js';
import { describeFolderError } from '../process/full-folder.js';
import { GrpcLink } from '../process/grpc-link.js';
import type { Guardian } from '../process/guardian.js';
import type { PluginControl } from '../process/ndjson/host-methods.js';
import { NdjsonLink } from '../process/ndjson/ndjson-link.js';
import type { LinkCall, LinkDone, LinkResult, PluginLink } from '../process/plugin-link.js';
import { describeExit, type Exit, PluginProcess, type StrayOutput } from '../process/plugin-process.js';
import { privateCopy } from '../process/private-copy.js';
import { createSocketDirectory, removeSocketDirectory } from '../process/socket-directory.js';
import { type Termination, terminate } from '../process/terminator.js';
import { checkedManifest } from './checked-manifest.js';

const lostConnectionGraceMs = 100;

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
  /** Makes what the process may call back for. */
  hostCalls(generation: Pick<Generation, 'calls' | 'manifest'>): HostCalls;
  readonly control: PluginControl;
  /** The process subscribes to other events than before. */
  onManifest(generation: Generation): void;
  setAutoRestart(enabled: boolean): void;
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
      readonly outcome: 'timeout' | 'crashed' | 'error' | 'oversize' | 'unreachable' | 'invalid' | 'cancelled';
      readonly reason: string;
      /** The plugin certainly knows nothing of the call. */
      readonly unsent?: boolean;
    };

type Start<Reply> = (link: PluginLink, done: LinkDone<Reply>) => LinkCall;

/** One process of a plugin, from its start to its end. */
export class Generation {
  readonly calls = new CallsInFlight();
  manifest: plugin.Manifest = plugin.Manifest.create();
  /** When it became ready, in milliseconds of the host's clock. */
  readyAt = 0;
  private readonly failOpenCalls = new Set<(reason: string) => void>();
  private process: PluginProcess | undefined;
  private link: PluginLink | undefined;
  private socketDirectory: string | undefined;
  private stopping = false;
  private checksum = '';
  private lostReason: string | undefined;
  private onIdle: (() => void) | undefined;
  /** How it ended, with the last stderr lines; empty while it lives. */
  end = '';
  /** It ended with exit code 0 while nothing was asked. */
  endedQuietly = false;
  /** How it took being told to end; undefined until it was, and where it had ended before. */
  termination: Termination | undefined;

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
      // What it printed instead of a handshake, or answered to Bootstrap, is quoted.
      const why = redactText(describeFolderError(error as Error, tmpdir()));
      if (error instanceof AppError) throw new AppError(error.code, `${why}${ended}`, { cause: error.cause });
      throw new AppError('plugin_refused', `it could not be started: ${why}${ended}`, { cause: error });
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

  /** The connection to it. */
  get connection(): PluginLink {
    return this.requireLink();
  }

  /** What it wrote to its stdout beside the protocol. */
  get strayOutput(): StrayOutput {
    return this.requireProcess().strayOutput;
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
    const open = openCall(envelope, timeoutMs, emitDepth);
    const link = this.requireLink();
    if (!link.answersEvents && !isPort(envelope.type)) {
      this.calls.tell(open);
      return new Promise((resolve) => {
        link.onEvent(envelope, timeoutMs, (result) => resolve(withoutEnd(result)));
      });
    }
    return this.call(open, timeoutMs, (link, done) => link.onEvent(envelope, timeoutMs, done), signal);
  }

  /** Delivers an event; answered when the plugin has handled it. */
  deliver(envelope: plugin.Envelope, timeoutMs: number): Promise<CallResult<plugin.Envelope>> {
    const open = openCall(envelope, timeoutMs);
    return this.call(open, timeoutMs, (link, done) => link.deliver(envelope, timeoutMs, done));
  }

  /** Executes a tool; the signal cancels it in the plugin. */
  executeMethod(
    input: plugin.MethodInput,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<CallResult<plugin.MethodResult>> {
    return this.call(
      openCall(input, timeoutMs),
      timeoutMs,
      (link, done) => link.executeMethod(input, timeoutMs, done),
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
    const { process, link } = this;
    if (process?.alive && link !== undefined)
      this.termination = await terminate(process, (timeoutMs) => link.shutdown(timeoutMs));
    await this.discard();
  }

  private async bringUp(): Promise<void> {
    const { candidate, startTimeoutMs, log } = this.spec;
    const deadline = performance.now() + startTimeoutMs;
    const left = () => Math.max(deadline - performance.now(), 1);
    const [identity, directory] = await Promise.all([
      candidate.settings.autoMtls && candidate.settings.transport === 'grpc' ? createIdentity() : undefined,
      createSocketDirectory(),
    ]);
    this.socketDirectory = directory;
    const command = await this.commandFrom(directory);
    this.process = await PluginProcess.start(
      {
        command,
        limits: candidate.settings.limits,
        folder: candidate.folder,
        frames: candidate.settings.transport === 'stdio',
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
    const giveUp = () => process.kill();
    if (this.spec.signal.aborted) giveUp();
    this.spec.signal.addEventListener('abort', giveUp, { once: true });
    this.link = this.linkTo(process, { directory, identity, left });
    this.manifest = checkedManifest(await this.link.connect(), log);
    this.spec.signal.removeEventListener('abort', giveUp);
    this.readyAt = performance.now();
  }

  /** The command to execute: from a checked copy where plugin.json gives a checksum. */
  private async commandFrom(directory: string): Promise<readonly [string, ...string[]]> {
    const { candidate } = this.spec;
    const { sha256 } = candidate.settings;
    if (sha256 === undefined) {
      this.checksum = await checksumOf(candidate.files);
      return candidate.command;
    }
    const target = join(directory, 'program');
    const command = await privateCopy({ ...candidate, sha256 }, target);
    this.checksum = await checksumOf(candidate.files.map((file) => join(target, relative(candidate.folder, file))));
    return command;
  }

  private linkTo(
    process: PluginProcess,
    { directory, identity, left }: { directory: string; identity: Identity | undefined; left: () => number },
  ): PluginLink {
    const { candidate, startTimeoutMs, log, control, setAutoRestart } = this.spec;
    const calls = this.spec.hostCalls(this);
    const onConnectionLost = (reason: string) => this.onConnectionLost(reason);
    const shared = { process, directory, startTimeoutMs, left, onConnectionLost };
    if (candidate.settings.transport === 'grpc')
      return new GrpcLink({ ...shared, identity, hostService: hostService(calls) });
    return new NdjsonLink({
      ...shared,
      plugin: candidate.name,
      config: candidate.settings.config,
      calls,
      control,
      setAutoRestart,
      log,
      onManifest: (manifest) => {
        this.manifest = checkedManifest(manifest, log);
        this.spec.onManifest(this);
      },
    });
  }

  private async describeFailedStart(process: PluginProcess): Promise<string> {
    process.kill();
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
      let call: LinkCall | undefined;
      const onAbort = () => {
        const reason = 'the caller cancelled the call';
        settle({ kind: 'failed', outcome: 'cancelled', reason });
        call?.cancel(reason);
      };
      const timer = setTimeout(() => {
        settle({ kind: 'failed', outcome: 'timeout', reason: `no answer within ${Math.round(timeoutMs)} ms` });
        call?.cancel();
      }, timeoutMs);
      this.calls.begin(open);
      this.failOpenCalls.add(onProcessEnd);
      signal?.addEventListener('abort', onAbort);
      try {
        call = withoutCallerStack(() =>
          start(this.requireLink(), (result) => {
            if (result.kind === 'answered') settle(result);
            else if (!settled) void this.judged(result).then(settle);
          }),
        );
      } catch (error) {
        // A closed channel refuses at once; the call is over then as any other.
        settle({ kind: 'failed', outcome: 'unreachable', reason: (error as Error).message });
        return;
      }
      if (signal?.aborted) onAbort();
    });
  }

  /** A call that broke while the process ends has crashed, whatever the transport calls it. */
  private async judged(result: Extract<LinkResult<never>, { kind: 'failed' }>): Promise<CallResult<never>> {
    if (result.mayBeEnd && (await Promise.race([this.exited, delay(lostConnectionGraceMs)])) !== undefined)
      return { kind: 'failed', outcome: 'crashed', reason: `the plugin ended: ${await this.describeEnd()}` };
    return withoutEnd(result);
  }

  private onProcessEnd(exit: Exit): void {
    this.end = `${describeExit(exit)}${this.process?.describeOutput() ?? ''}`;
    this.endedQuietly = exit.code === 0 && this.calls.size === 0;
    const reason = `the plugin ended: ${this.end}`;
    for (const fail of [...this.failOpenCalls]) fail(reason);
    void this.link?.close();
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
      this.requireProcess().kill();
    });
  }

  private async discard(): Promise<void> {
    this.stopping = true;
    this.process?.kill();
    await this.process?.exited;
    await this.process?.gone;
    await this.link?.close();
    if (this.socketDirectory !== undefined) await removeSocketDirectory(this.socketDirectory);
  }

  private requireProcess(): PluginProcess {
    if (this.process === undefined) throw new AppError('invariant_broken', 'a generation has no process');
    return this.process;
  }

  private requireLink(): PluginLink {
    if (this.link === undefined) throw new AppError('invariant_broken', 'a generation has no connection');
    return this.link;
  }
}

/** What call-backs during the question are made in the name of. */
function openCall(
  { sessionId, runId, capability, principal }: plugin.Envelope | plugin.MethodInput,
  timeoutMs: number,
  emitDepth = 0,
): OpenCall {
  const endsAt = performance.now() + timeoutMs;
  return { sessionId, runId, capability, principal, emitDepth, endsAt, trace: activeTrace() };
}

/** The reason may be the text of the plugin's own error, and goes on to audit, callers and the model. */
function withoutEnd<Reply>(result: LinkResult<Reply>): CallResult<Reply> {
  if (result.kind === 'answered') return result;
  const { outcome, reason, unsent } = result;
  return { kind: 'failed', outcome, reason: redactText(reason), ...(unsent === true ? { unsent } : {}) };
}

async function checksumOf(files: readonly string[]): Promise<string> {
  const hash = createHash('sha256');
  for (const file of files) hash.update(await readFile(file));
  return hash.digest('hex');
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

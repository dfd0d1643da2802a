import { dirname } from 'node:path';
import { AppError, type JsonObject, type JsonValue } from '@codedock/domain';
import { inTrace, type Logger, type TraceCarrier } from '@codedock/platform';
import { isPort, plugin } from '@codedock/proto';
import { delay } from '../delay.js';
import { describeFolderError } from '../full-folder.js';
import type { LinkCall, LinkDone, PluginLink } from '../plugin-link.js';
import { describeExit, type PluginProcess } from '../plugin-process.js';
import { within } from '../within.js';
import {
  errorLine,
  type Frame,
  type Members,
  maxLineBytes,
  notificationLine,
  readFrame,
  requestLine,
  resultLine,
} from './frame.js';
import { FrameWriter, type WrittenLine } from './frame-writer.js';
import { errorTextOf, HostMethods, type HostMethodsContext } from './host-methods.js';
import { LineReader } from './line-reader.js';
import {
  answeredEnvelope,
  deliverParams,
  eventParams,
  failureOf,
  stageParams,
  toolParams,
  toolResult,
} from './question-frame.js';
import { Registrations } from './registrations.js';
import { Spool } from './spool.js';
import { coreVersion, versionProblem } from './version-rule.js';

/** Bytes that may wait for a plugin that does not read: a full set of gate calls and tools, each a whole line. */
const writeQueueBytes = 64 * 1024 * 1024;
/** Calls of a plugin the host works on at the same time; further ones are refused. */
const maxHostCalls = 64;
/** Unread bytes from which on a plugin gets no answers to its own calls, and no events, any more. */
const maxUnreadBytes = 16 * 1024 * 1024;
const exitGraceMs = 200;
/** A method that no version of the protocol has. */
const unknownMethod = 'plugin.notYetInvented';
/** Bytes shown of a line that is no frame. */
const shownBytes = 200;

/** What an NDJSON link is made of. */
export interface NdjsonLinkSpec extends Omit<HostMethodsContext, 'registrations'> {
  readonly process: PluginProcess;
  /** Private folder in which the spool folders are made. */
  readonly directory: string;
  readonly config: JsonObject;
  readonly startTimeoutMs: number;
  /** Milliseconds of the start time-out that are left. */
  left(): number;
  readonly log: Logger;
  /** The plugin subscribes to other events than before. */
  onManifest(manifest: plugin.Manifest): void;
  /** The plugin has closed one of its ends. */
  onConnectionLost(reason: string): void;
}

type Answer = Extract<Frame, { readonly kind: 'result' | 'error' | 'invalid' }> | { readonly kind: 'oversize' };

/** A request of the host that is not answered yet. */
interface Pending {
  settle(answer: Answer): void;
  /** The connection is gone; no answer can come. */
  broken(): void;
}

/** One JSON object a line over stdin and stdout: for programs that know no gRPC. */
export class NdjsonLink implements PluginLink {
  readonly answersEvents = false;
  private readonly writer: FrameWriter;
  private readonly reader = new LineReader(
    {
      onLine: (line) => this.onFrame(readFrame(line), line),
      onTooLong: (beginning) => this.onTooLong(beginning),
    },
    maxLineBytes,
  );
  private readonly pending = new Map<number, Pending>();
  private readonly registrations: Registrations;
  private readonly methods: HostMethods;
  private readonly closing = new AbortController();
  private lastId = 0;
  private hostCalls = 0;
  private closed = false;
  private connected = false;
  private mayRegister = false;
  private droppedAnswers = 0;
  private refuseStart: ((reason: string) => void) | undefined;

  constructor(private readonly spec: NdjsonLinkSpec) {
    const { stdin, stdout } = spec.process.streams();
    this.registrations = new Registrations((manifest) => spec.onManifest(manifest));
    this.methods = new HostMethods({ ...spec, registrations: this.registrations });
    this.writer = new FrameWriter(stdin, writeQueueBytes);
    stdin.on('error', (error: NodeJS.ErrnoException) => this.onLost(`its stdin is closed (${error.code})`));
    stdout.on('data', (chunk: Buffer) => this.reader.write(chunk));
    stdout.once('end', () => {
      this.reader.end();
      this.onLost('it closed its stdout');
    });
    stdout.on('error', () => undefined);
  }

  async connect(): Promise<plugin.Manifest> {
    const { plugin: name, config, process, log } = this.spec;
    const noFrame = new Promise<never>((_, reject) => {
      this.refuseStart = (reason) => reject(new AppError('plugin_refused', reason));
    });
    noFrame.catch(() => undefined);
    const shaking = this.must('handshake', {
      core_version: coreVersion,
      plugin_name: name,
      capabilities: this.methods.names,
    });
    shaking.catch(() => undefined);
    const answer = await Promise.race([shaking, noFrame]);
    this.refuseStart = undefined;
    const about = introduced(answer);
    this.registrations.introduce(about);
    const pid = answer.get('pid');
    if (pid !== undefined && pid !== process.pid)
      log.debug({ pid, leader: process.pid }, 'a plugin names another process id than that of its leader');
    await this.must('plugin.init', { name, config });
    this.mayRegister = true;
    await this.must('plugin.start', {});
    this.connected = true;
    return this.registrations.seal();
  }

  onEvent(envelope: plugin.Envelope, timeoutMs: number, done: LinkDone<plugin.Envelope>): LinkCall {
    if (isPort(envelope.type)) {
      return this.ask(
        'stage.invoke',
        timeoutMs,
        (spool) => stageParams(envelope, spool),
        (result, spool) => answeredEnvelope(result, spool),
        done,
      );
    }
    const line = notificationLine('event.deliver', eventParams(envelope));
    const fits = line.length <= maxLineBytes && this.writer.unreadBytes + line.length <= maxUnreadBytes;
    if (!fits || this.writer.write(line) === undefined) {
      this.spec.log.warn(
        { event: envelope.type, bytes: line.length },
        'an event was not delivered: it is too large, or the plugin does not read its stdin',
      );
    }
    done({ kind: 'answered', reply: envelope });
    return { cancel: () => undefined };
  }

  deliver(envelope: plugin.Envelope, timeoutMs: number, done: LinkDone<plugin.Envelope>): LinkCall {
    return this.ask(
      'event.deliver',
      timeoutMs,
      (spool) => deliverParams(envelope, spool),
      async () => envelope,
      done,
    );
  }

  executeMethod(input: plugin.MethodInput, timeoutMs: number, done: LinkDone<plugin.MethodResult>): LinkCall {
    return this.ask(
      'tool.invoke',
      timeoutMs,
      (spool) => toolParams(input, spool),
      (result, spool) => toolResult(result, spool),
      done,
    );
  }

  async shutdown(timeoutMs: number): Promise<void> {
    const answered = new Promise<void>((resolve) => {
      const settle = () => resolve();
      if (!this.send('plugin.stop', '{}', { settle, broken: settle })) resolve();
    });
    let timer: NodeJS.Timeout | undefined;
    await Promise.race([
      answered,
      new Promise<void>((resolve) => {
        timer = setTimeout(resolve, timeoutMs);
      }),
    ]);
    clearTimeout(timer);
    // A script that reads its stdin to the end ends with it.
    this.writer.close();
  }

  async callUnknown(timeoutMs: number): Promise<string> {
    const answer = new Promise<Answer | undefined>((resolve) => {
      if (!this.send(unknownMethod, '{}', { settle: resolve, broken: () => resolve(undefined) })) resolve(undefined);
    });
    const frame = await Promise.race([answer, delay(timeoutMs)]);
    if (frame?.kind === 'error') return '';
    return frame === undefined
      ? `it did not answer the unknown method "${unknownMethod}" within ${timeoutMs} ms`
      : `it answered the unknown method "${unknownMethod}" with a result; answer {"id", "error"}`;
  }

  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    this.closing.abort();
    this.writer.close();
    this.failPending();
  }

  /** A request of the start, whose refusal or failure refuses the plugin. */
  private async must(method: string, params: Readonly<Record<string, unknown>>): Promise<Members> {
    const { process, startTimeoutMs, left } = this.spec;
    const answer = new Promise<Answer | undefined>((resolve) => {
      const text = JSON.stringify(params);
      const sent = this.send(method, text, { settle: resolve, broken: () => resolve(undefined) });
      if (!sent) resolve(undefined);
    });
    const frame = await within(
      answer,
      left(),
      () =>
        `it did not answer "${method}" within the start time-out of ${startTimeoutMs} ms and was killed; it must read requests from stdin and answer on stdout, one JSON object a line${process.describeOutput()}`,
    );
    switch (frame?.kind) {
      case 'result':
        return frame.result;
      case 'error':
        throw new AppError('plugin_refused', `it answered "${method}" with the error: ${frame.error}`);
      case 'invalid':
        throw new AppError('plugin_refused', `its answer to "${method}" is invalid: ${frame.reason}`);
      case 'oversize':
        throw new AppError('plugin_refused', `its answer to "${method}" is longer than ${maxLineBytes} bytes`);
      default:
        throw await this.describeLoss(method);
    }
  }

  private async describeLoss(method: string): Promise<AppError> {
    const { process } = this.spec;
    const exit = await Promise.race([process.exited, delay(exitGraceMs)]);
    return new AppError(
      'plugin_refused',
      exit === undefined
        ? `it closed its stdin or stdout before it answered "${method}"; keep both open and speak NDJSON on them`
        : `it ended (${describeExit(exit)}) before it answered "${method}"; run it from a shell and type its requests to see why`,
    );
  }

  private ask<Reply>(
    method: string,
    timeoutMs: number,
    params: (spool: Spool) => Promise<string>,
    read: (result: Members, spool: Spool) => Promise<Reply>,
    done: LinkDone<Reply>,
  ): LinkCall {
    const id = ++this.lastId;
    let spool: Spool;
    try {
      spool = Spool.make(this.spec.directory, `s${id}`);
    } catch (error) {
      done(this.unsent('no spool folder could be made', error as Error));
      return { cancel: () => undefined };
    }
    let line: WrittenLine | undefined;
    let over = false;
    const finish = (result: Parameters<LinkDone<Reply>>[0]) => {
      if (over) return;
      over = true;
      spool.remove();
      done(result);
    };
    const settle = (answer: Answer) => {
      switch (answer.kind) {
        case 'error':
          return finish(failed('error', answer.error));
        case 'invalid':
          return finish(failed('invalid', answer.reason));
        case 'oversize':
          return finish(
            failed('oversize', `its answer is longer than a line of ${maxLineBytes} bytes; use the spool folder`),
          );
        case 'result':
          read(answer.result, spool).then(
            (reply) => finish({ kind: 'answered', reply }),
            (error: unknown) => {
              const { outcome, reason } = failureOf(error);
              finish(failed(outcome, reason));
            },
          );
      }
    };
    const broken = () => finish(failed('unreachable', 'its connection is closed', true));
    params(spool).then(
      (text) => {
        if (over) return;
        line = this.send(method, text, { settle, broken }, id);
        if (line === undefined) {
          finish(
            this.writer.open
              ? failed('timeout', `it does not read its stdin: ${this.writer.unreadBytes} bytes wait for it`)
              : failed('unreachable', 'its stdin is closed', true),
          );
        }
      },
      (error: Error) => finish(this.unsent('a large value could not be handed over', error)),
    );
    return {
      cancel: (reason = `no answer within ${Math.round(timeoutMs)} ms`) => {
        if (over) return;
        over = true;
        this.pending.delete(id);
        spool.remove();
        if (line?.takeBack() === false)
          this.writer.write(notificationLine('call.cancel', JSON.stringify({ call_id: id, reason })));
      },
    };
  }

  /** A question that could not even be put down in the plugin's private folder. */
  private unsent(what: string, error: Error) {
    const why = describeFolderError(error, dirname(this.spec.directory));
    return { ...failed('unreachable', `${what}: ${why}`), unsent: true };
  }

  /** Sends a request; undefined when the plugin does not take any. */
  private send(method: string, params: string, pending: Pending, id = ++this.lastId): WrittenLine | undefined {
    if (this.closed) return undefined;
    const line = this.writer.write(requestLine(id, method, params));
    if (line !== undefined) this.pending.set(id, pending);
    return line;
  }

  private onFrame(frame: Frame, line: Buffer): void {
    switch (frame.kind) {
      case 'result':
      case 'error':
      case 'invalid':
        this.settle(frame.id, frame);
        return;
      case 'request':
        this.perform(frame.method, frame.params).then(
          (result) => this.answer(resultLine(frame.id, result)),
          (error: unknown) => this.answer(errorLine(frame.id, errorTextOf(error))),
        );
        return;
      case 'notification':
        // Nothing is answered, not even that it does not exist.
        this.perform(frame.method, frame.params).catch((error: unknown) => {
          this.spec.log.debug(
            { method: frame.method, reason: errorTextOf(error) },
            'a notification of a plugin failed',
          );
        });
        return;
      case 'refused':
        this.answer(errorLine(frame.id, `${frame.method.slice(0, 100)}: ${frame.reason}`));
        return;
      case 'broken': {
        const shown = JSON.stringify(line.subarray(0, shownBytes).toString('utf8'));
        const reason = `a line on its stdout is no frame, ${frame.reason}: ${shown}`;
        this.refuseStart?.(`${reason}; stdout belongs to the protocol, log to stderr`);
        this.spec.process.noteStray(line);
        this.spec.process.writeOutput(Buffer.from(`[WARN] ${reason}\n`));
      }
    }
  }

  private async perform(method: string, params: Members): Promise<JsonValue> {
    if (this.hostCalls >= maxHostCalls) {
      throw new AppError(
        'rate_limited',
        `${method.slice(0, 100)}: ${maxHostCalls} calls are open; wait for their answers`,
      );
    }
    if (!this.mayRegister && /^(tool|stage|events)\./.test(method))
      throw new AppError('invalid_request', `${method}: register while plugin.start is handled`);
    this.hostCalls++;
    try {
      return await inTrace(traceOf(params), () => this.methods.call(method, params, this.closing.signal));
    } finally {
      this.hostCalls--;
    }
  }

  private answer(line: Buffer): void {
    const fits = line.length <= maxLineBytes && this.writer.unreadBytes + line.length <= maxUnreadBytes;
    if (fits && this.writer.write(line) !== undefined) return;
    if (this.droppedAnswers++ === 0 && !this.closed)
      this.spec.log.warn('a plugin does not read the answers to its own calls; they are dropped');
  }

  private onTooLong(beginning: Buffer): void {
    const id = /^\s*\{\s*"id"\s*:\s*(\d{1,15})\s*[,}]/.exec(beginning.toString('latin1'))?.[1];
    this.spec.process.writeOutput(Buffer.from(`[WARN] a line on stdout is longer than ${maxLineBytes} bytes\n`));
    if (id !== undefined && !/"method"/.test(beginning.toString('latin1')))
      this.settle(Number(id), { kind: 'oversize' });
  }

  /** Late and foreign answers change nothing. */
  private settle(id: number, answer: Answer): void {
    const pending = this.pending.get(id);
    this.pending.delete(id);
    pending?.settle(answer);
  }

  private onLost(reason: string): void {
    this.failPending();
    // While it starts, the start itself fails and says why.
    if (!this.closed && this.connected) this.spec.onConnectionLost(reason);
  }

  private failPending(): void {
    const open = [...this.pending.values()];
    this.pending.clear();
    for (const pending of open) pending.broken();
  }
}

function failed(
  outcome: 'timeout' | 'error' | 'oversize' | 'unreachable' | 'invalid',
  reason: string,
  mayBeEnd = false,
) {
  return { kind: 'failed' as const, outcome, reason, mayBeEnd };
}

/** The trace a plugin names in its params; it names none, and that of the question it is asked is taken. */
function traceOf(params: Members): TraceCarrier {
  const traceparent = params.get('traceparent');
  const tracestate = params.get('tracestate');
  if (typeof traceparent !== 'string') return {};
  return { traceparent, ...(typeof tracestate === 'string' ? { tracestate } : {}) };
}

/** What the handshake's answer says about the plugin. @throws AppError `plugin_refused` naming the field that is wrong. */
function introduced(answer: Members): Partial<plugin.Manifest> {
  const refuse = (field: string, what: string) =>
    new AppError('plugin_refused', `"${field}" of its handshake's answer must be ${what}; correct the plugin`);
  const text = (field: string): string => {
    const value = answer.get(field) ?? '';
    if (typeof value !== 'string') throw refuse(field, 'a text');
    return value;
  };
  const sdkVersion = text('sdk_version');
  const problem = versionProblem(sdkVersion);
  if (problem !== undefined) throw new AppError('plugin_refused', problem);
  const capabilities = answer.get('capabilities') ?? [];
  if (!Array.isArray(capabilities) || !capabilities.every((one) => typeof one === 'string'))
    throw refuse('capabilities', 'a list of texts');
  return {
    name: text('plugin_name'),
    sdkVersion,
    version: text('version'),
    policyVersion: text('policy_version'),
    capabilities: capabilities as string[],
  };
}

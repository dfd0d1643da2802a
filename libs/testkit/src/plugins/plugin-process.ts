import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { HostIdentity } from '@codedock/plugin-sdk/testing';
import { TestHost, type TestHostOptions } from './test-host.js';

/** How a test host starts a plugin. */
export interface PluginProcessOptions extends Omit<TestHostOptions, 'socketDirectory' | 'identity'> {
  /** Present = AutoMTLS. */
  readonly identity?: HostIdentity;
  /** Laid over the protocol's variables; undefined removes one. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
}

/** A started plugin process, with nothing between the test and the protocol. */
export class PluginProcess {
  private stdoutText = '';
  private stderrText = '';
  private host: TestHost | undefined;
  /** How it ended. */
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;

  private constructor(
    readonly child: ChildProcess,
    private readonly directory: string,
    private readonly options: PluginProcessOptions,
  ) {
    child.stdout?.on('data', (chunk: Buffer) => {
      this.stdoutText += chunk.toString('utf8');
    });
    child.stderr?.on('data', (chunk: Buffer) => {
      this.stderrText += chunk.toString('utf8');
    });
    this.exited = once(child, 'close').then(([code, signal]) => ({ code, signal }));
  }

  /** Starts an executable as a go-plugin host does. */
  static async start(executable: string, options: PluginProcessOptions = {}): Promise<PluginProcess> {
    const directory = await mkdtemp(join(tmpdir(), 'cdt'));
    const environment: Record<string, string | undefined> = {
      PATH: process.env['PATH'],
      CODEDOCK_PLUGIN: 'codedock-plugin-v1',
      PLUGIN_PROTOCOL_VERSIONS: '1',
      PLUGIN_UNIX_SOCKET_DIR: directory,
      TMPDIR: directory,
      ...(options.identity === undefined ? {} : { PLUGIN_CLIENT_CERT: options.identity.certificatePem }),
      ...options.environment,
    };
    const child = spawn(executable, [], { env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
    await once(child, 'spawn');
    return new PluginProcess(child, directory, options);
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** Everything on the real stdout so far; the handshake and nothing else, if the plugin behaves. */
  get stdout(): string {
    return this.stdoutText;
  }

  get stderr(): string {
    return this.stderrText;
  }

  /** The first line on stdout. @throws Error with stderr when the process ends before there is one. */
  async handshake(): Promise<string> {
    while (!this.stdoutText.includes('\n')) {
      const { stdout } = this.child;
      if (stdout === null) throw new Error('the process has no stdout');
      await Promise.race([
        once(stdout, 'data'),
        this.exited.then(({ code, signal }) => {
          throw new Error(`the plugin ended before its handshake (${signal ?? code}): ${this.stderrText}`);
        }),
      ]);
    }
    return this.stdoutText.slice(0, this.stdoutText.indexOf('\n'));
  }

  /** Connects to it; once. */
  async connect(): Promise<TestHost> {
    const { identity, services, announce } = this.options;
    this.host = TestHost.connect(await this.handshake(), {
      socketDirectory: this.directory,
      ...(identity === undefined ? {} : { identity }),
      ...(services === undefined ? {} : { services }),
      ...(announce === undefined ? {} : { announce }),
    });
    return this.host;
  }

  /** Ends it, however it behaves, and removes what it had. */
  async dispose(): Promise<void> {
    this.child.kill('SIGKILL');
    this.host?.close();
    await this.exited;
    await rm(this.directory, { recursive: true, force: true });
  }
}

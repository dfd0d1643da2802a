import type { Clock } from '@codedock/domain';
import { gate } from '@codedock/proto';
import { type ChannelOptions, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { DispatchStream } from '../stream/dispatch-stream.js';
import type { ReplicaAddress } from './addresses.js';
import { type ChainView, compileSnapshot } from './chain-view.js';
import type { BridgeLogger, BridgeTls } from './options.js';

const CHANNEL_OPTIONS: ChannelOptions = {
  'grpc.max_receive_message_length': -1,
  'grpc.max_send_message_length': -1,
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
  // What is sent again, and when, is decided here; nobody reads channelz.
  'grpc.enable_retries': 0,
  'grpc.enable_channelz': 0,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.min_reconnect_backoff_ms': 100,
  // A host that is back is found well within the budget of a gate that waits for it.
  'grpc.max_reconnect_backoff_ms': 500,
  // A host that vanished without closing its connection is noticed well before its snapshot expires.
  'grpc.keepalive_time_ms': 5_000,
  'grpc.keepalive_timeout_ms': 2_000,
};

/** A connection that is dead is known to be so after this long (keepalive, and some more); milliseconds. */
const SILENCE_MS = 8_000;
const FIRST_BACKOFF_MS = 100;
const LONGEST_BACKOFF_MS = 500;

/** How a replica is reached and whom it tells about changes. */
export interface ReplicaOptions {
  readonly clientName: string;
  readonly token: string | undefined;
  readonly tls: BridgeTls | undefined;
  readonly clock: Clock;
  readonly logger: BridgeLogger | undefined;
  readonly traced: (() => boolean) | undefined;
  readonly onChange: () => void;
}

/** One plugin-host: its channel, its Watch and what it last said. */
export class Replica {
  readonly client: gate.GateServiceClient;
  readonly metadata = new Metadata();
  /** Where gates are asked. */
  readonly dispatches: DispatchStream;
  /** Gate and tool calls under way. */
  inFlight = 0;
  /** The last snapshot; undefined before the first. */
  view: ChainView | undefined;
  watching = false;
  /** When the Watch broke last, by the clock. */
  brokenAt = 0;

  private silentUntil = 0;
  private readonly stop = new AbortController();
  private stream: ReturnType<gate.GateServiceClient['watch']> | undefined;

  constructor(
    readonly address: ReplicaAddress,
    private readonly options: ReplicaOptions,
  ) {
    const { tls, token } = options;
    const channel: ChannelOptions = { ...CHANNEL_OPTIONS };
    if (tls !== undefined && address.serverName !== undefined) {
      channel['grpc.ssl_target_name_override'] = address.serverName;
    }
    const channelCredentials =
      tls === undefined
        ? credentials.createInsecure()
        : credentials.createSsl(tls.ca ?? null, tls.key ?? null, tls.cert ?? null);
    this.client = new gate.GateServiceClient(address.target, channelCredentials, channel);
    if (token !== undefined) this.metadata.set('authorization', `Bearer ${token}`);
    this.dispatches = new DispatchStream({
      client: this.client,
      metadata: this.metadata,
      target: address.target,
      traced: options.traced,
    });
  }

  /** Keeps a Watch open until the replica is closed. */
  async watch(): Promise<void> {
    let backoff = FIRST_BACKOFF_MS;
    while (!this.stop.signal.aborted) {
      const received = await this.watchOnce();
      backoff = received ? FIRST_BACKOFF_MS : Math.min(backoff * 2, LONGEST_BACKOFF_MS);
      await this.options.clock.sleep(backoff, this.stop.signal);
    }
  }

  /** True while the last snapshot counts: its Watch lives, or broke less than `servesMs` ago. */
  serves(servesMs: number): boolean {
    return this.view?.complete === true && (this.watching || this.options.clock.now() - this.brokenAt < servesMs);
  }

  /**
   * A gate's time ran out without a word from here, where a host itself says so before: its connection may be dead, and
   * others are better asked until that is known.
   */
  get silent(): boolean {
    return this.silentUntil > 0 && this.options.clock.now() < this.silentUntil;
  }

  /** See `silent`. */
  fellSilent(): void {
    const before = this.silent;
    this.silentUntil = this.options.clock.now() + SILENCE_MS;
    if (before) return;
    this.options.logger?.warn(
      { target: this.address.target },
      'a plugin-host let the time of a gate run out without an answer; others are asked first',
    );
  }

  /** Something came from the host. */
  heard(): void {
    this.silentUntil = 0;
  }

  close(): void {
    this.stop.abort();
    this.stream?.cancel();
    this.dispatches.close();
    this.client.close();
  }

  // Resolves when the stream is over: whether it delivered anything.
  private watchOnce(): Promise<boolean> {
    return new Promise((resolve) => {
      let received = false;
      let over = false;
      const stream = this.client.watch({ client: this.options.clientName }, this.metadata);
      this.stream = stream;
      const end = (error?: ServiceError) => {
        if (over) return;
        over = true;
        if (this.watching) this.broke(error);
        resolve(received);
      };
      stream.on('data', (snapshot: gate.Snapshot) => {
        if (over || this.stop.signal.aborted) return;
        received = true;
        this.heard();
        this.accept(compileSnapshot(snapshot));
      });
      stream.on('error', end);
      stream.on('end', () => end());
    });
  }

  private accept(view: ChainView): void {
    // A host that drains or starts anew knows nothing: what it said last serves on, as if the Watch had broken.
    if (!view.complete && this.view?.complete === true) {
      if (this.watching) this.brokenAt = this.options.clock.now();
      this.watching = false;
    } else {
      this.watching = true;
      this.view = view;
    }
    this.options.onChange();
  }

  private broke(error: ServiceError | undefined): void {
    this.watching = false;
    this.brokenAt = this.options.clock.now();
    if (this.stop.signal.aborted) return;
    this.options.logger?.warn(
      { target: this.address.target, ...(error === undefined ? {} : { code: error.code, details: error.details }) },
      'the watch of a plugin-host ended; its last snapshot serves for a while',
    );
    this.options.onChange();
  }
}

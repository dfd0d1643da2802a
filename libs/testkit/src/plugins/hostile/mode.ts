import type { JsonObject, JsonValue } from '@codedock/plugin-sdk';

/** Name of a gate in the plugin protocol. */
export type PortName =
  | 'agent/input'
  | 'agent/pre-step'
  | 'agent/request'
  | 'llm/stream'
  | 'tools/pre-execute'
  | 'tools/post-execute';

/** A tool that a test plugin offers. */
export interface TestTool {
  readonly name: string;
  /** JSON Schema; default: any object. */
  readonly parameters?: JsonObject;
  readonly requiresApproval?: boolean;
  readonly effect?: 'pure' | 'idempotent' | 'effectful';
  /** Milliseconds; default the host's. */
  readonly timeoutMs?: number;
  /** One line of JSON `{tool, callId, idempotencyKey, attempt, args}` is appended for each effect. */
  readonly effectFile?: string;
  /**
   * After the effect: `answer` (default), `fail` (a failed result), `hang` until cancelled or for ever, `crash` (SIGKILL to
   * itself), `crash-once` (only if the effect file holds no earlier effect of the call).
   */
  readonly outcome?: 'answer' | 'fail' | 'hang' | 'crash' | 'crash-once';
  /** Milliseconds between effect and answer. */
  readonly delayMs?: number;
  /** Default `{ok: true, args}`. */
  readonly result?: JsonValue;
}

/** What is wrong (or right) with a test plugin. Ports default to the one where the mode means something. */
export type PluginMode =
  /** Never answers, and does not notice being cancelled. */
  | { readonly mode: 'hang'; readonly port: PortName }
  | { readonly mode: 'exit'; readonly port: PortName; readonly code?: number }
  /** SIGKILL to itself. */
  | { readonly mode: 'kill-self'; readonly port: PortName }
  /** The handler throws. */
  | { readonly mode: 'throw'; readonly port: PortName; readonly message?: string }
  /** The answer's payload is no JSON. */
  | { readonly mode: 'garbage'; readonly port: PortName }
  /** The answer's type is none the port allows; default `nonsense/type`. */
  | { readonly mode: 'wrong-direction'; readonly port: PortName; readonly type?: string }
  /** A field of the answer's payload has the wrong JSON type. */
  | { readonly mode: 'wrong-type'; readonly port: PortName }
  /** The answer's payload has this many bytes; default 5 MiB. */
  | { readonly mode: 'oversize'; readonly port: PortName; readonly bytes?: number }
  /** Answers unchanged after a delay, in milliseconds, cancelled or not. */
  | { readonly mode: 'late'; readonly port: PortName; readonly delayMs: number }
  | { readonly mode: 'change-call-id'; readonly port?: 'tools/pre-execute' | 'tools/post-execute' }
  /** Writes to stdout before the handshake. */
  | { readonly mode: 'print-before-handshake'; readonly text?: string }
  /** Ends right at the start, with a line on stderr. */
  | { readonly mode: 'exit-at-start'; readonly code?: number }
  /** Starts and never prints a handshake. */
  | { readonly mode: 'silent' }
  /** Answers Shutdown and stays. */
  | { readonly mode: 'ignore-shutdown' }
  /** Never answers Shutdown and stays. */
  | { readonly mode: 'hang-at-shutdown' }
  /** Starts a process that ignores SIGTERM, in its own group if `detached`, and writes its pid to a file. */
  | { readonly mode: 'spawn-grandchild'; readonly pidFile: string; readonly detached?: boolean }
  /** Appends one line of JSON `{port, envelope}` per question or event to a file and goes on unchanged. */
  | {
      readonly mode: 'count';
      readonly file: string;
      readonly ports?: readonly PortName[];
      readonly events?: readonly string[];
    }
  /** Lays members over the payload: `{content}` at agent/input, `{arguments}` and `{output}` at the tool ports, … */
  | { readonly mode: 'transform'; readonly port: PortName; readonly changes: JsonObject }
  /** Appends to the text that the port is about (content, system prompt, text output), so that order shows. */
  | {
      readonly mode: 'append';
      readonly port: 'agent/input' | 'agent/pre-step' | 'agent/request' | 'tools/post-execute';
      readonly text: string;
    }
  | { readonly mode: 'handled'; readonly reason?: string }
  | { readonly mode: 'block'; readonly port: 'agent/input' | 'agent/pre-step'; readonly reason?: string }
  /** For these tools only, if they are named. */
  | { readonly mode: 'deny'; readonly reason?: string; readonly tools?: readonly string[] }
  | {
      readonly mode: 'ask';
      readonly reason?: string;
      readonly arguments?: JsonObject;
      readonly tools?: readonly string[];
    }
  | { readonly mode: 'skip'; readonly result?: JsonValue; readonly reason?: string; readonly tools?: readonly string[] }
  | { readonly mode: 'abort'; readonly reason?: string; readonly tools?: readonly string[] }
  /** Sets a key of the scratchpad at a port. */
  | { readonly mode: 'scratchpad'; readonly port: PortName; readonly key: string; readonly value: JsonValue }
  | { readonly mode: 'tools'; readonly tools: readonly TestTool[] };

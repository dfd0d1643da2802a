/** One span as a process has sent it. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Absent where it begins its trace. */
  readonly parentSpanId?: string;
  readonly name: string;
  /** `service.name` of the process. */
  readonly service: string;
  /** Milliseconds since the epoch. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly failed: boolean;
  /** Of its status; empty where there is none. */
  readonly message: string;
}

/** Spans of the body of `POST /v1/traces` in OTLP's JSON encoding; what is no span is left out. */
export function readSpans(body: unknown): ReceivedSpan[] {
  return list(member(body, 'resourceSpans')).flatMap((resourceSpans) => {
    const resource = attributesOf(member(member(resourceSpans, 'resource'), 'attributes'));
    const service = text(resource['service.name']) || 'unknown';
    return list(member(resourceSpans, 'scopeSpans')).flatMap((scopeSpans) =>
      list(member(scopeSpans, 'spans')).flatMap((span) => readSpan(span, service)),
    );
  });
}

function readSpan(span: unknown, service: string): ReceivedSpan[] {
  const traceId = text(member(span, 'traceId')).toLowerCase();
  const spanId = text(member(span, 'spanId')).toLowerCase();
  if (!/^[0-9a-f]{32}$/.test(traceId) || !/^[0-9a-f]{16}$/.test(spanId)) return [];
  const parentSpanId = text(member(span, 'parentSpanId')).toLowerCase();
  const status = member(span, 'status');
  return [
    {
      traceId,
      spanId,
      ...(parentSpanId === '' ? {} : { parentSpanId }),
      name: text(member(span, 'name')),
      service,
      startMs: milliseconds(member(span, 'startTimeUnixNano')),
      endMs: milliseconds(member(span, 'endTimeUnixNano')),
      attributes: attributesOf(member(span, 'attributes')),
      links: list(member(span, 'links')).map((link) => ({
        traceId: text(member(link, 'traceId')).toLowerCase(),
        spanId: text(member(link, 'spanId')).toLowerCase(),
      })),
      failed: member(status, 'code') === 2,
      message: text(member(status, 'message')),
    },
  ];
}

function attributesOf(pairs: unknown): Record<string, unknown> {
  return Object.fromEntries(list(pairs).map((pair) => [text(member(pair, 'key')), plainValue(member(pair, 'value'))]));
}

/** A value of OTLP: `{"stringValue": …}`, `{"intValue": "1"}`, `{"arrayValue": {"values": […]}}`. */
function plainValue(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  const [[kind, inner] = ['', undefined]] = Object.entries(value);
  if (kind === 'intValue') return Number(inner);
  if (kind === 'arrayValue') return list(member(inner, 'values')).map(plainValue);
  return inner;
}

/** Nanoseconds come as a text (64 bits) or as low and high halves. */
function milliseconds(nanoseconds: unknown): number {
  if (typeof nanoseconds === 'object' && nanoseconds !== null) {
    const { low, high } = nanoseconds as { low?: unknown; high?: unknown };
    return (Number(high) * 2 ** 32 + (Number(low) >>> 0)) / 1e6;
  }
  return Number(nanoseconds) / 1e6 || 0;
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

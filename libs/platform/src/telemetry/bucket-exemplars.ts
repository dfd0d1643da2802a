import { type Attributes, type Span, TraceFlags } from '@opentelemetry/api';

/** Series of one histogram that keep exemplars; further ones have none. */
const MOST_SERIES = 500;

/** One measurement, and the span it was made in. */
interface Exemplar {
  value: number;
  traceId: string;
  spanId: string;
  /** Milliseconds since the epoch. */
  at: number;
}

interface Series {
  readonly attributes: Attributes;
  /** One place for each bucket, the last one for +Inf; empty until something fell into it in a sampled span. */
  readonly buckets: (Exemplar | undefined)[];
}

/**
 * The newest measurement with a sampled span in each bucket of a histogram: at most one for each bucket of 500 series.
 * Without a sampled span nothing is kept and nothing is allocated.
 */
export class BucketExemplars {
  readonly #sample: string;
  readonly #boundaries: readonly number[];
  readonly #series = new Map<string, Series>();

  /** `metric` is the histogram's name with dots; `boundaries` ascend and are upper limits, themselves included. */
  constructor(metric: string, boundaries: readonly number[]) {
    this.#sample = `${metric.replaceAll('.', '_')}_bucket`;
    this.#boundaries = boundaries;
  }

  /** Keeps a measurement if `span` is sampled. The values of `attributes` are few and plain (`boundedLabels`). */
  keep(value: number, attributes: Attributes, span: Span | undefined): void {
    if (span === undefined) return;
    const { traceFlags, traceId, spanId } = span.spanContext();
    if ((traceFlags & TraceFlags.SAMPLED) === 0) return;
    const buckets = this.#bucketsOf(attributes);
    if (buckets === undefined) return;
    const bucket = this.#bucketOf(value);
    const at = Date.now();
    const kept = buckets[bucket];
    if (kept === undefined) buckets[bucket] = { value, traceId, spanId, at };
    else Object.assign(kept, { value, traceId, spanId, at });
  }

  /** Writes each exemplar as OpenMetrics does, by the sample it belongs to: `name_bucket{label="value",le="0.5"}`. */
  write(into: Map<string, string>): void {
    for (const { attributes, buckets } of this.#series.values()) {
      const labels = Object.entries(attributes).map(([name, value]) => `${name}="${String(value)}",`);
      for (const [index, exemplar] of buckets.entries()) {
        if (exemplar === undefined) continue;
        const { value, traceId, spanId, at } = exemplar;
        into.set(
          `${this.#sample}{${labels.join('')}le="${this.#boundaries[index] ?? '+Inf'}"}`,
          `# {trace_id="${traceId}",span_id="${spanId}"} ${value} ${at / 1_000}`,
        );
      }
    }
  }

  #bucketsOf(attributes: Attributes): Series['buckets'] | undefined {
    // A line feed is in no label: what is not plain has been replaced.
    const key = Object.values(attributes).join('\n');
    let series = this.#series.get(key);
    if (series === undefined) {
      if (this.#series.size >= MOST_SERIES) return undefined;
      series = { attributes, buckets: Array.from({ length: this.#boundaries.length + 1 }, () => undefined) };
      this.#series.set(key, series);
    }
    return series.buckets;
  }

  #bucketOf(value: number): number {
    for (let index = 0; index < this.#boundaries.length; index += 1) {
      if (value <= (this.#boundaries[index] ?? Number.POSITIVE_INFINITY)) return index;
    }
    return this.#boundaries.length;
  }
}

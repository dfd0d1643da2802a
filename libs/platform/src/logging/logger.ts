import { isSpanContextValid, trace } from '@opentelemetry/api';
import { type DestinationStream, type Logger as PinoLogger, pino, stdTimeFunctions } from 'pino';
import { standardOutput } from './line-output.js';
import { prettyStream } from './pretty.js';
import { redactLine, redactValue } from './redact.js';

/** How a program logs. */
export interface LoggerOptions {
  /** Name of the program; the member `app` of every line. */
  readonly app: string;
  readonly level: string;
  readonly format: 'json' | 'pretty';
  /** Where lines go. Default: standard output. */
  readonly to?: DestinationStream;
}

/** The logger of a program: `logger.info({ runId }, 'lease taken')`. */
export type Logger = PinoLogger;

/**
 * Makes the logger of a program. One JSON object per line with `level`, `time` (ISO), `app`, `msg`, and `trace_id`
 * and `span_id` inside a span. Secrets are replaced by name and by look before a line is written.
 */
export function createLogger({ app, level, format, to = standardOutput() }: LoggerOptions): Logger {
  return pino(
    {
      level,
      base: { app },
      timestamp: stdTimeFunctions.isoTime,
      mixin: traceIds,
      // Errors are described by redactValue; pino's own description would come before it and keep their secrets.
      serializers: { err: (error: unknown) => error },
      formatters: {
        level: (label) => ({ level: label }),
        log: (members) => redactValue(members) as Record<string, unknown>,
        bindings: (members) => redactValue(members) as Record<string, unknown>,
      },
      // The message, and the bindings of child loggers, which the steps above do not see.
      hooks: { streamWrite: redactLine },
    },
    format === 'pretty' ? prettyStream(to) : to,
  );
}

function traceIds(): Record<string, string> {
  const context = trace.getActiveSpan()?.spanContext();
  return context && isSpanContextValid(context) ? { trace_id: context.traceId, span_id: context.spanId } : {};
}

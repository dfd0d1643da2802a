import type { LoggerService } from '@nestjs/common';
import type { Logger } from 'pino';

/** What Nest says, in the service's log. Its start-up lines are debug. */
export class NestLog implements LoggerService {
  constructor(private readonly target: Logger) {}

  log(message: unknown): void {
    this.target.debug(String(message));
  }

  warn(message: unknown): void {
    this.target.warn(String(message));
  }

  error(message: unknown, stack?: unknown): void {
    this.target.error(typeof stack === 'string' ? { stack } : {}, message instanceof Error ? message.message : String(message));
  }
}

import type { LoggerService } from '@nestjs/common';
import type { Logger } from './logger.js';

/** Lets Nest write its own messages to the program's logger; the last text argument of Nest is the context. */
export class NestLogger implements LoggerService {
  constructor(private readonly logger: Logger) {}

  log(message: unknown, ...rest: unknown[]): void {
    this.write('info', message, rest);
  }

  error(message: unknown, ...rest: unknown[]): void {
    this.write('error', message, rest);
  }

  warn(message: unknown, ...rest: unknown[]): void {
    this.write('warn', message, rest);
  }

  debug(message: unknown, ...rest: unknown[]): void {
    this.write('debug', message, rest);
  }

  verbose(message: unknown, ...rest: unknown[]): void {
    this.write('trace', message, rest);
  }

  fatal(message: unknown, ...rest: unknown[]): void {
    this.write('fatal', message, rest);
  }

  private write(
    level: 'info' | 'error' | 'warn' | 'debug' | 'trace' | 'fatal',
    message: unknown,
    rest: unknown[],
  ): void {
    const context = rest.length > 0 ? rest[rest.length - 1] : undefined;
    const members: Record<string, unknown> = typeof context === 'string' ? { context } : {};
    if (rest.length > 1) {
      members['stack'] = rest[0];
    }
    if (message instanceof Error) {
      members['err'] = message;
      this.logger[level](members, message.message);
    } else if (typeof message === 'object' && message !== null) {
      this.logger[level]({ ...members, details: message });
    } else {
      this.logger[level](members, String(message));
    }
  }
}

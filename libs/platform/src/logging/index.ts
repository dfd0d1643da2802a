export { createLogger, type Logger, type LoggerOptions } from './logger.js';
export { NestLogger } from './nest-logger.js';
export { redactLine, redactText, redactValue } from './redact.js';

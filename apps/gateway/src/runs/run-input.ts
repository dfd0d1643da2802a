import { type ErrorDetail, isWellFormed } from '@codedock/domain';
import { invalid } from '../http/validation.js';
import { content, mode } from './run.schema.js';

/**
 * Holds input to the rules of the request, also after a gate has changed it.
 * @throws AppError `invalid_request` naming `/content` or `/mode`.
 */
export function requireInput(input: { readonly content: string; readonly mode?: string }): void {
  const faults: ErrorDetail[] = [];
  if (!content.safeParse(input.content).success || !isWellFormed(input.content)) {
    faults.push({ path: '/content', message: 'must be 1 to 500,000 well-formed characters' });
  }
  if (input.mode !== undefined && !mode.safeParse(input.mode).success) {
    faults.push({ path: '/mode', message: 'must be 1 to 64 characters' });
  }
  if (faults.length > 0) throw invalid('body', faults);
}

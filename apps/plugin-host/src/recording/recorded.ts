import { AppError } from '@codedock/domain';
import type { EnvelopeJson } from './envelope-json.js';

/** One question as a line of a recording, with what became of it. */
export interface Recorded {
  readonly question: EnvelopeJson;
  /** Absent where the plugin gave none, and for events, which nobody answers. */
  readonly answer?: EnvelopeJson;
  /** Why there is no answer. */
  readonly failed?: { readonly outcome: string; readonly reason: string };
  /** When it was asked, RFC 3339. */
  readonly at?: string;
  /** Milliseconds until it was answered. */
  readonly duration_ms?: number;
}

/** Reads a recording: one JSON object a line, empty lines skipped. @throws AppError `invalid_request` naming the line. */
export function readRecording(text: string, file: string): Recorded[] {
  return text.split('\n').flatMap((line, index) => {
    if (line.trim() === '') return [];
    try {
      const recorded = JSON.parse(line) as Partial<Recorded> | null;
      if (typeof recorded?.question?.type !== 'string') throw new TypeError('it has no "question" with a "type"');
      return [recorded as Recorded];
    } catch (error) {
      throw new AppError(
        'invalid_request',
        `line ${index + 1} of ${file} is no line of a recording: ${(error as Error).message}; record again with codedock plugin record`,
      );
    }
  });
}

import { AppError } from '@codedock/domain';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { hygieneFault } from './hygiene.js';

/** Largest request body, bytes. */
export const MAX_BODY_BYTES = 1024 * 1024;

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Makes JSON the only media type the API reads, read by one careful reader. */
export function acceptJsonOnly(server: FastifyInstance): void {
  server.removeAllContentTypeParsers();
  server.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    async (request: FastifyRequest, body: Buffer) => {
      const encoding = request.headers['content-encoding'];
      if (encoding !== undefined && encoding !== 'identity') {
        throw new AppError('unsupported_media_type', 'Compressed request bodies are not read; send the JSON as it is.');
      }
      return readJson(body);
    },
  );
}

/**
 * Bytes of a request as a JSON value; an empty body is undefined.
 * @throws AppError `malformed_json` for what is no JSON in UTF-8, `invalid_request` with the path for JSON that may not enter.
 */
export function readJson(body: Uint8Array): unknown {
  if (body.byteLength === 0) return undefined;
  const value = parsed(body);
  const fault = hygieneFault(value);
  if (fault !== undefined) {
    throw new AppError(
      'invalid_request',
      `The request body is not acceptable: ${fault.path || 'the body'} ${fault.message}.`,
      {
        errors: [fault],
      },
    );
  }
  return value;
}

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(utf8.decode(body));
  } catch (cause) {
    throw new AppError('malformed_json', 'The request body is not JSON in UTF-8.', { cause });
  }
}

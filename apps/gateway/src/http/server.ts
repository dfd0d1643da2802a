import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { AppError } from '@codedock/domain';
import type { Logger } from '@codedock/platform';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { MAX_BODY_BYTES } from './json-body.js';
import { answerFailure } from './problem.filter.js';
import { PROBLEM_TYPE } from './problem.js';

/** Milliseconds within which a request, its body included, must have arrived. */
const REQUEST_TIMEOUT_MS = 30_000;

/** The HTTP server: limits and answers that the framework would otherwise give in its own words. */
export function httpServer(log: Logger): FastifyAdapter {
  return new FastifyAdapter({
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    // A HEAD of an event stream would be a stream without events.
    exposeHeadRoutes: false,
    // Draining answers as a problem; see Drain.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    genReqId: () => randomUUID(),
    logger: false,
    skipMiddie: true,
    frameworkErrors: (error: Error, request: FastifyRequest, reply: FastifyReply) => {
      const failure = new AppError('not_found', 'There is nothing at this address.', { cause: error });
      answerFailure(failure, request, reply, log);
    },
    clientErrorHandler: (error: Error & { code?: string }, socket: Socket) => answerGarbage(error, socket),
  });
}

/** Names every answer by its request, so that a user's report finds the log line. */
export function nameRequests(server: FastifyInstance): void {
  server.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id);
  });
}

/** What cannot be read as HTTP still gets a problem. */
function answerGarbage({ code }: { code?: string }, socket: Socket): void {
  if (code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, words] =
    code === 'HPE_HEADER_OVERFLOW'
      ? [431, 'Request Header Fields Too Large']
      : code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? [408, 'Request Timeout']
        : [400, 'Bad Request'];
  const problem = {
    type: 'urn:codedock:problem:invalid_request',
    title: words,
    status,
    detail: 'The request could not be read as HTTP.',
    code: 'invalid_request',
    instance: `urn:uuid:${randomUUID()}`,
  };
  const body = JSON.stringify(problem);
  const head = [
    `HTTP/1.1 ${status} ${words}`,
    `Content-Type: ${PROBLEM_TYPE}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}

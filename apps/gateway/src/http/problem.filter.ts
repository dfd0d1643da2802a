import { AppError } from '@codedock/domain';
import type { Logger } from '@codedock/platform';
import { type ArgumentsHost, Catch, type ExceptionFilter, NotFoundException } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { failureOf, PROBLEM_TYPE, problemFor } from './problem.js';
import type { RouteTable } from './route-table.js';

/** Answers every failure, the framework's own included, as a problem; logs those that are ours. */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  constructor(
    private readonly routes: RouteTable,
    private readonly log: Logger,
  ) {}

  catch(thrown: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    answerFailure(this.explained(thrown, http.getRequest()), http.getRequest(), http.getResponse(), this.log);
  }

  private explained(thrown: unknown, request: FastifyRequest): unknown {
    if (!(thrown instanceof NotFoundException)) return thrown;
    const methods = this.routes.methodsOf(request.url.split('?', 1)[0] ?? '');
    if (methods.length === 0) return new AppError('not_found', 'There is nothing at this address.');
    const allow = methods.join(', ');
    return new AppError('method_not_allowed', `This address takes ${allow}.`, { extra: { allow } });
  }
}

/** Sends a failure as a problem. */
export function answerFailure(thrown: unknown, request: FastifyRequest, reply: FastifyReply, log: Logger): void {
  const failure = failureOf(thrown);
  const { problem, headers } = problemFor(failure, request.id);
  if (problem.status >= 500)
    log.error({ requestId: request.id, code: problem.code, err: failure.cause ?? failure }, problem.detail);
  if (reply.sent || reply.raw.headersSent) {
    reply.raw.destroy();
    return;
  }
  void reply.status(problem.status).headers(headers).type(PROBLEM_TYPE).send(JSON.stringify(problem));
}

/** Turns an error into a response: a problem document, never a stack trace. */

import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException } from '@nestjs/common';
import { PROJECT_SERVICES } from '@slipway/crds';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { kindOfStatus, Problem, retryLater } from './problem.js';
import { methodsOf } from './route.js';

@Catch()
export class ProblemFilter implements ExceptionFilter {
  constructor(private readonly log: Logger) {}

  catch(exception: unknown, host: ArgumentsHost) {
    const http = host.switchToHttp();
    answerProblem(exception, http.getRequest(), http.getResponse(), this.log);
  }
}

export function answerProblem(exception: unknown, request: FastifyRequest, reply: FastifyReply, log: Logger) {
  const problem = loggedProblem(exception, request, log);
  // Fastify closes the connection of an unread body, and a client that still sends would see a reset instead of the
  // response. Without that header Node reads and drops the rest, until the request times out.
  reply.removeHeader('connection');
  void reply
    .code(problem.status)
    .headers(problem.extras.headers ?? {})
    .type('application/problem+json')
    .send(JSON.stringify(problem.document(pathOf(request))));
}

/** Returns the Problem for the caller, and logs the cause if it is not the caller's fault. */
export function loggedProblem(exception: unknown, request: FastifyRequest, log: Logger): Problem {
  const problem = toProblem(exception, request);
  if (problem.status >= 500)
    log.error({ err: problem.extras.cause ?? exception, request: request.id }, problem.message);
  return problem;
}

export const pathOf = (request: FastifyRequest) => (request.raw.url ?? '/').split('?', 1)[0] as string;

function toProblem(exception: unknown, request: FastifyRequest): Problem {
  if (exception instanceof Problem) return exception;
  if (exception instanceof HttpException) return ofHttp(exception.getStatus(), exception.message, request);
  const { statusCode, message } = exception as { statusCode?: number; message?: string };
  if (statusCode !== undefined && statusCode < 500) return ofHttp(statusCode, message ?? '', request);
  if (isConnectionLoss(exception)) {
    const problem = retryLater('unavailable', 'The platform database does not answer. Try again.', 2);
    return new Problem(problem.kind, problem.message, { ...problem.extras, cause: exception });
  }
  return new Problem('internal_error', `This is a fault of the platform; its log names it by ${request.id}.`, {
    cause: exception,
  });
}

function ofHttp(status: number, message: string, request: FastifyRequest): Problem {
  if (status === 404) return unrouted(request);
  if (status === 415) return new Problem('unsupported_media_type', 'Send the body as content-type: application/json.');
  if (status >= 500)
    return new Problem(kindOfStatus(status), `This is a fault of the platform; its log names it by ${request.id}.`);
  return new Problem(kindOfStatus(status), message);
}

export function unrouted(request: FastifyRequest): Problem {
  const methods = methodsOf(pathOf(request));
  if (methods.length === 0) return new Problem('not_found', whyUnrouted(pathOf(request)));
  const allow = methods.join(', ');
  return new Problem('method_not_allowed', `This address accepts ${allow}.`, { headers: { allow } });
}

/** Matches the path of a project's service, such as `/rest/v1/todos`. */
const SERVICE_PATH = new RegExp(`^/(${PROJECT_SERVICES.join('|')}|graphql)/v1(?=/|$)`);

function whyUnrouted(path: string): string {
  const [service] = SERVICE_PATH.exec(path) ?? [];
  if (service === undefined) return 'There is no such route; /openapi.json lists them all.';
  return (
    `This address names no project. A project has ${service} below its project_url, which GET /projects/{id} shows: ` +
    `<project_url>${service}, on one machine /p/<ref>${service}.`
  );
}

/** SQLSTATEs of class 08 and 57P, and socket errors: the database is unavailable. */
export function isConnectionLoss(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const code = String((cause as { code?: unknown }).code ?? '');
    if (/^(08|57P|53)|^(ECONNREFUSED|ECONNRESET|ENOENT|EPIPE|ETIMEDOUT)$/.test(code)) return true;
    if (/Connection terminated|not queryable|timeout exceeded when trying to connect/.test(cause.message)) return true;
  }
  return false;
}

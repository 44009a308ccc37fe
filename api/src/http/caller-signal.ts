import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import { Problem } from './problem.js';

/** The handler's parameter that is aborted when the caller's connection closes before the answer. */
export const CallerSignal = createParamDecorator((_: unknown, context: ExecutionContext): AbortSignal => {
  const request = context.switchToHttp().getRequest<FastifyRequest>();
  // What closed while the token was looked up is not told again.
  return request.socket.destroyed ? AbortSignal.abort() : request.signal;
});

/** Nobody reads it but the log. */
export const callerGone = () => new Problem('caller_gone', 'The caller closed the connection before the answer.');

import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { Problem } from './problem.js';

/** The handler's parameter that is aborted when the caller's connection closes before the answer. */
export const CallerSignal = createParamDecorator((_: unknown, context: ExecutionContext): AbortSignal => {
  const { raw } = context.switchToHttp().getResponse<FastifyReply>();
  const controller = new AbortController();
  // Not the request's own event, which comes once its body is read.
  raw.once('close', () => {
    if (!raw.writableFinished) controller.abort();
  });
  // What closed while the token was looked up is not told again.
  if (raw.destroyed) controller.abort();
  return controller.signal;
});

/** Nobody reads it but the log. */
export const callerGone = () => new Problem('caller_gone', 'The caller closed the connection before the answer.');

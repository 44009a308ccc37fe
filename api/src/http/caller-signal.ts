import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { Problem } from './problem.js';

/** Injects a signal into a handler that aborts if the caller disconnects before the response. */
export const CallerSignal = createParamDecorator((_: unknown, context: ExecutionContext) => callerSignal(context));

export function callerSignal(context: ExecutionContext): AbortSignal {
  const { raw } = context.switchToHttp().getResponse<FastifyReply>();
  const controller = new AbortController();
  // The request's own `close` event comes once its body is read, so that of the response is used.
  raw.once('close', () => {
    if (!raw.writableFinished) controller.abort(callerGone());
  });
  // A connection that closed during authentication emits no further event.
  if (raw.destroyed) controller.abort(callerGone());
  return controller.signal;
}

/** The error of a disconnected caller. It appears only in the log. */
export const callerGone = () => new Problem('caller_gone', 'The caller closed the connection before the answer.');

/** Origin of a request, for limits, sessions and mails. */
import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { networkOf } from '@slipway/program';
import type { FastifyRequest } from 'fastify';

export interface Origin {
  /** An IPv4 address, or the first 48 bits of an IPv6 address. */
  network: string;
  /** The client's User-Agent, bounded and on one line. */
  userAgent: string;
}

const LONGEST_USER_AGENT = 200;

export function originOf({ ip, headers }: Pick<FastifyRequest, 'ip' | 'headers'>): Origin {
  const userAgent = (headers['user-agent'] ?? '').replaceAll(/[^\x20-\x7e]/g, '').slice(0, LONGEST_USER_AGENT);
  return { network: networkOf(ip), userAgent };
}

/** Injects the origin of the request into a handler. */
export const From = createParamDecorator((_: unknown, context: ExecutionContext) =>
  originOf(context.switchToHttp().getRequest<FastifyRequest>()),
);

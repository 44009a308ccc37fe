/** Where a request comes from, for limits, sessions and mails. */
import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import { networkOf } from './rate-limit.js';

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

/** The handler's parameter that holds where the request comes from. */
export const From = createParamDecorator((_: unknown, context: ExecutionContext) =>
  originOf(context.switchToHttp().getRequest<FastifyRequest>()),
);

/**
 * Sends a POST to an address that a tenant chose, by the guarded client. In: the address, headers and a body. Out: the
 * outcome, with no word of the receiver: its response may be that of a server which the owner must not read.
 */
import { AddressRefused, type Outbound } from '@slipway/program/outbound.js';
import type { Failure } from '../retries.js';
import { failed, type Sent } from './sender.js';

/** Shorter than the lease of a channel. */
const TIMEOUT_MS = 15_000;

interface Post {
  url: string;
  headers: Record<string, string>;
  body: string;
  /** Statuses that mean that the receiver does not exist any longer. */
  gone: readonly number[];
}

export async function post(outbound: Outbound, { url, headers, body, gone }: Post): Promise<Sent> {
  try {
    const response = await outbound.fetch(url, {
      method: 'POST',
      // A redirect would lead to another receiver than the owner chose.
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
      headers: { 'user-agent': 'Slipway', ...headers },
      body,
    });
    await response.body?.cancel();
    if (response.ok) return { kind: 'delivered', status: response.status };
    return failed({
      error: wordsOf(response.status),
      status: response.status,
      retryAfterMs: retryAfterOf(response.headers.get('retry-after')),
      isGone: gone.includes(response.status),
    });
  } catch (error) {
    return failed({ error: reasonOf(error) });
  }
}

const wordsOf = (status: number) =>
  status >= 300 && status < 400
    ? `the receiver answered ${status}; redirects are not followed`
    : `the receiver answered ${status}`;

function retryAfterOf(header: string | null): number | undefined {
  return header !== null && /^\d{1,6}$/.test(header) ? Number(header) * 1000 : undefined;
}

/** Codes of connections that failed. Others are not shown, as their texts have addresses. */
const CODE = /^(E[A-Z_]{2,30}|[A-Z]+_[A-Z_]{2,40})$/;

function reasonOf(error: unknown): Failure['error'] {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof AddressRefused) return cause.message;
    if (cause.name === 'TimeoutError') return `the receiver did not answer within ${TIMEOUT_MS / 1000} s`;
    const { code } = cause as { code?: unknown };
    if (typeof code === 'string' && CODE.test(code)) return `the connection failed (${code})`;
  }
  return 'the request failed';
}

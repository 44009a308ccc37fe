/**
 * Reports hosts of hooks and providers that auth does not connect to, because their addresses are refused. In: the
 * error of a request. Out: a line in the logs of the platform and of the project. The response has no reason, because
 * any user of the app receives it.
 */
import { AddressRefused } from '@slipway/program/outbound.js';
import type { Context } from './context.js';

/** The most errors behind an error that are read. */
const MOST_CAUSES = 4;

/** Returns the refusal that caused the error. */
export function refusalBehind(error: unknown): AddressRefused | undefined {
  let cause = error;
  for (let read = 0; read <= MOST_CAUSES && cause instanceof Error; read++) {
    if (cause instanceof AddressRefused) return cause;
    ({ cause } = cause);
  }
  return undefined;
}

export function reportRefusal(
  { request, log, ownerLog }: Pick<Context, 'request' | 'log' | 'ownerLog'>,
  error: unknown,
) {
  const refusal = refusalBehind(error);
  if (refusal === undefined) return;
  const { requestId, tenant } = request;
  const host = `${refusal.to.host}:${refusal.to.port}`;
  log.warn({ requestId, ref: tenant.ref, host, reason: refusal.message }, 'configured address refused');
  const facts = { host, reason: refusal.message, request_id: requestId };
  ownerLog?.write(tenant.ref, 'auth', { level: 'error', message: 'configured address refused', facts });
}

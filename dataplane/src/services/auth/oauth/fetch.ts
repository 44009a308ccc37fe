/**
 * Sends one request to a provider: bounded in time and size, without redirects, and with errors that contain no secret.
 */
import { parseJson, readBounded } from '@slipway/program';
import type { Outbound } from '@slipway/program/outbound.js';
import { AuthError } from '../errors.js';

const TIMEOUT_MS = 10_000;
const MAX_BYTES = 1024 * 1024;

export async function fetchJson(
  outbound: Outbound,
  url: string,
  options: { body?: URLSearchParams; headers?: Record<string, string> } = {},
): Promise<Record<string, unknown> | unknown[]> {
  const { body, headers } = options;
  try {
    const answer = await outbound.fetch(url, {
      ...(body ? { method: 'POST', body } : {}),
      headers: { accept: 'application/json', 'user-agent': 'slipway', ...headers },
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (!answer.ok) {
      await answer.body?.cancel();
      throw providerFailed();
    }
    return parseJson(await readBounded(answer.body ?? [], MAX_BYTES, () => providerFailed())) as
      | Record<string, unknown>
      | unknown[];
  } catch (error) {
    throw error instanceof AuthError ? error : providerFailed(error);
  }
}

/** Returns a fetch function for libraries, with the same bounds. */
export const boundedFetch =
  (outbound: Outbound): typeof fetch =>
  async (...request) => {
    const answer = await outbound.fetch(...request);
    return new Response(new Uint8Array(await readBounded(answer.body ?? [], MAX_BYTES, () => providerFailed())), {
      status: answer.status,
    });
  };

export const providerFailed = (cause?: unknown) =>
  new AuthError(500, 'unexpected_failure', 'Unable to exchange external code', { cause });

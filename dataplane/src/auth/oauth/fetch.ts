/**
 * One request to a provider: bounded in time and size, no redirect followed, and refused in words that hold no secret.
 */
import { AuthError } from '../errors.js';
import type { Outbound } from '../outbound.js';
import { readBounded } from '../read-bounded.js';

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
    return JSON.parse(await readBounded(answer, MAX_BYTES, providerFailed)) as Record<string, unknown> | unknown[];
  } catch (error) {
    throw error instanceof AuthError ? error : providerFailed();
  }
}

/** For who brings time and place himself: the answer's body alone, of no more bytes. */
export const boundedFetch =
  (outbound: Outbound): typeof fetch =>
  async (...asked) => {
    const answer = await outbound.fetch(...asked);
    return new Response(await readBounded(answer, MAX_BYTES, providerFailed), { status: answer.status });
  };

export const providerFailed = () => new AuthError(500, 'unexpected_failure', 'Unable to exchange external code');

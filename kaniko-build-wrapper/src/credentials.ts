/**
 * Fetches the git credentials of a build from the API, the only program that can decrypt them. In: the build's ticket.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { parseJson } from '@slipway/program';

export interface Credentials {
  token: string | null;
  deployKey: string | null;
}

export interface Ticket {
  ref: string;
  name: string;
  ticket: string;
}

/** Limits of the API's response, which has a token and a private key. */
const LARGEST = { bytes: 64 * 1024, depth: 4, values: 10 };
const PAUSE_MS = 500;
const TIMEOUT_MS = 10_000;
/** Milliseconds of retries while the API rejects the ticket: it may not have stored the ticket's digest yet. */
const REJECTED_MS = 4_000;
/** Milliseconds of retries while the API is unavailable: it may start, as after a start of the whole machine. */
const UNAVAILABLE_MS = 60_000;

/**
 * Retries while the API starts, so that its start costs no attempt of the build. `apiUrl` is the API, or the egress
 * proxy in front of it.
 */
export async function fetchCredentials(
  apiUrl: string,
  { ref, name, ticket }: Ticket,
  signal: AbortSignal,
): Promise<Credentials> {
  const url = `${apiUrl.replace(/\/+$/, '')}/builds/${ref}/${name}/credentials`;
  const begin = performance.now();
  for (;;) {
    const answer = await fetch(url, {
      method: 'POST',
      headers: { 'x-build-ticket': ticket },
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    }).catch((error: Error) => error);
    if (!(answer instanceof Error) && answer.status === 200) {
      const { github_token, deploy_key } = parseJson(await answer.text(), LARGEST) as Record<string, string | null>;
      return { token: github_token ?? null, deployKey: deploy_key ?? null };
    }
    signal.throwIfAborted();
    const why = answer instanceof Error ? answer.message : `the API answered ${answer.status}`;
    const isUnavailable = answer instanceof Error || answer.status >= 500;
    if (performance.now() - begin > (isUnavailable ? UNAVAILABLE_MS : REJECTED_MS)) {
      throw new Error(`git credentials could not be fetched: ${why}`);
    }
    await pause(PAUSE_MS, undefined, { signal });
  }
}

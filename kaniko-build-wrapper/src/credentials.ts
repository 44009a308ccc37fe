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
const TRIES = 8;
const PAUSE_MS = 500;
const TIMEOUT_MS = 10_000;

/** Retries while the API starts. `apiUrl` is the API, or the egress proxy in front of it. */
export async function fetchCredentials(
  apiUrl: string,
  { ref, name, ticket }: Ticket,
  signal: AbortSignal,
): Promise<Credentials> {
  const url = `${apiUrl.replace(/\/+$/, '')}/builds/${ref}/${name}/credentials`;
  for (let attempt = 1; ; attempt += 1) {
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
    // The API may not have stored the ticket's digest yet.
    if (attempt === TRIES) throw new Error(`git credentials could not be fetched: ${why}`);
    await pause(PAUSE_MS, undefined, { signal });
  }
}

/**
 * Calls a hook that is a server: sends one signed POST (https://www.standardwebhooks.com), and repeats it only if the
 * server requests this.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { HookTarget } from '@slipway/installation/auth-settings.js';
import { parseJson, readBounded, webhookHeaders } from '@slipway/program';
import type { Outbound } from '@slipway/program/outbound.js';
import { AuthError } from '../errors.js';
import type { HookOutput } from './invoke.js';

/** Maximum milliseconds of all attempts together. */
const TIMEOUT_MS = 5000;
const TRIES = 3;
const BACK_OFF_MS = 2000;
const MAX_ANSWER_BYTES = 200 * 1024;

export async function post(
  outbound: Outbound,
  target: HookTarget & { kind: 'http' },
  input: object,
): Promise<HookOutput> {
  const body = JSON.stringify(input);
  const id = randomUUID();
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  for (let tried = 1; ; tried++) {
    const answer = await send(outbound, target, { id, body }, signal);
    if (answer.ok) return parse(answer);
    await answer.body?.cancel();
    const again = (answer.status === 429 || answer.status === 503) && answer.headers.has('retry-after');
    if (!again) throw refusedWith(answer.status);
    if (tried === TRIES)
      throw new AuthError(422, 'hook_timeout_after_retry', 'Service unavailable after several tries');
    await pause(BACK_OFF_MS, undefined, { signal }).catch(() => {
      throw timeout();
    });
  }
}

async function send(
  outbound: Outbound,
  { url, secrets }: HookTarget & { kind: 'http' },
  { id, body }: { id: string; body: string },
  signal: AbortSignal,
): Promise<Response> {
  try {
    return await outbound.fetch(url, {
      method: 'POST',
      // The response decides, so redirects are not followed.
      redirect: 'error',
      signal,
      body,
      headers: webhookHeaders({ id, at: new Date(), body }, secrets),
    });
  } catch (cause) {
    if (signal.aborted) throw timeout();
    throw new AuthError(500, 'unexpected_failure', 'Failed to reach hook', { cause });
  }
}

const timeout = () =>
  new AuthError(422, 'hook_timeout', `Failed to reach hook within maximum time of ${TIMEOUT_MS / 1000} seconds`);

const refusedWith = (status: number) =>
  new AuthError(500, 'unexpected_failure', `Unexpected status code returned from hook: ${status}`);

async function parse(answer: Response): Promise<HookOutput> {
  if (answer.status === 204 || answer.status === 202) {
    await answer.body?.cancel();
    return {};
  }
  const text = (await readBounded(answer.body ?? [], MAX_ANSWER_BYTES, tooLarge)).toString();
  if (text.trim() === '') return {};
  if (!answer.headers.get('content-type')?.startsWith('application/json')) {
    throw new AuthError(400, 'hook_payload_invalid_content_type', 'Invalid Content-Type header');
  }
  try {
    const output: unknown = parseJson(text);
    if (typeof output === 'object' && output !== null && !Array.isArray(output)) return output as HookOutput;
  } catch {
    // Handled below, like any response that is no object.
  }
  throw new AuthError(500, 'unexpected_failure', 'Error unmarshaling JSON output');
}

const tooLarge = () =>
  new AuthError(422, 'hook_payload_over_size_limit', `Payload size exceeds ${MAX_ANSWER_BYTES} bytes`);

import { get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseJson, readBounded } from '@slipway/program';
import { StartProblem } from './problem.js';

const PATIENCE_MS = 120_000;
/** Maximum bytes of a response that are read. */
const MOST_BYTES = 64 * 1024;

/** Resolves once `GET <url>/health` returns 200. Throws if `signal` aborts first. */
export async function untilHealthy(url: string, signal: AbortSignal): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  let last = 'no answer';
  while (performance.now() < deadline) {
    const answer = await request(`${url}/health`).catch((error: Error) => ({ status: 0, text: error.message }));
    if (answer.status === 200) return;
    last = `${answer.status || ''} ${answer.text.slice(0, 500)}`.trim();
    await sleep(50, undefined, { signal });
  }
  throw new StartProblem(`the platform does not become ready; GET ${url}/health says: ${last}`);
}

/** True if the first administrator must still register with the setup code (`GET <url>/auth/registration`). */
export async function isSetupRequired(url: string): Promise<boolean> {
  const { status, text } = await request(`${url}/auth/registration`);
  if (status !== 200) throw new StartProblem(`GET ${url}/auth/registration answers ${status}`);
  return (parseJson(text) as { setup_required: boolean }).setup_required;
}

function request(url: string): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = get(url, { agent: false, timeout: 5_000 }, (response) => {
      readBounded(response, MOST_BYTES).then(
        (body) => resolve({ status: response.statusCode ?? 0, text: body.toString() }),
        reject,
      );
    });
    sent.on('timeout', () => sent.destroy(new Error('no answer within 5 s')));
    sent.on('error', reject);
  });
}

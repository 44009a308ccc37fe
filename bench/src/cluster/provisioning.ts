/**
 * From POST /projects to healthy on a cluster that has the images, for each way that projects run there; one at a time.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Plan } from '@slipway/crds';
import type { Management } from '@slipway/e2e/management.js';

const HEALTHY_TIMEOUT_MS = 180_000;
const GONE_TIMEOUT_MS = 300_000;
const POLL_MS = 10;

/** Resolves with the project's id once its status is healthy. */
export async function createProject(person: Management, plan: Plan, pollMs = POLL_MS): Promise<number> {
  const { id } = await person.createProject(`bench-${randomUUID().slice(0, 8)}`, plan);
  const deadline = Date.now() + HEALTHY_TIMEOUT_MS;
  for (;;) {
    const { body } = await person.call<{ status: string }>('GET', `/projects/${id}/status`);
    if (body.status === 'healthy') return id;
    if (body.status === 'error' || Date.now() > deadline) throw new Error(`project ${id} is ${JSON.stringify(body)}`);
    await sleep(pollMs);
  }
}

/** Seconds that each of `count` took, after one that is not counted: it brings what is made on first use. */
export async function timesToHealthy(person: Management, plan: Plan, count: number): Promise<number[]> {
  const times: number[] = [];
  for (let round = 0; round <= count; round++) {
    const begin = performance.now();
    await createProject(person, plan);
    if (round > 0) times.push((performance.now() - begin) / 1000);
  }
  return times;
}

/** Deletes every project of the account and waits until they are gone. */
export async function deleteAll(person: Management): Promise<void> {
  const deadline = Date.now() + GONE_TIMEOUT_MS;
  for (;;) {
    const { body } = await person.call<{ id: number; status: string }[]>('GET', '/projects?limit=100');
    if (body.length === 0) return;
    if (Date.now() > deadline) throw new Error(`${body.length} projects or more do not go away`);
    const asked = body.filter(({ status }) => status !== 'deleting');
    await Promise.all(asked.map(({ id }) => person.call('DELETE', `/projects/${id}`)));
    if (asked.length === 0) await sleep(250);
  }
}

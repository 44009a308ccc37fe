/**
 * Measures the time from POST /projects to healthy, one project at a time, on a cluster that already has the images.
 * Each way in which projects run there is measured.
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

/**
 * Returns the seconds that each of `count` projects took. One more project before them is not counted: it creates what
 * is created on first use.
 */
export async function timesToHealthy(person: Management, plan: Plan, count: number): Promise<number[]> {
  const times: number[] = [];
  for (let round = 0; round <= count; round++) {
    const begin = performance.now();
    await createProject(person, plan);
    if (round > 0) times.push((performance.now() - begin) / 1000);
  }
  return times;
}

/** Deletes every project of the account and waits until they no longer exist. */
export async function deleteAll(person: Management): Promise<void> {
  const deadline = Date.now() + GONE_TIMEOUT_MS;
  for (;;) {
    const { body } = await person.call<{ id: number; status: string }[]>('GET', '/projects?limit=100');
    if (body.length === 0) return;
    if (Date.now() > deadline) throw new Error(`${body.length} projects or more were not deleted in time`);
    const remaining = body.filter(({ status }) => status !== 'deleting');
    await Promise.all(remaining.map(({ id }) => person.call('DELETE', `/projects/${id}`)));
    if (remaining.length === 0) await sleep(250);
  }
}

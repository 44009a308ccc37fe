/** Snapshots of machines at the provider, each found by its labels. */
import { type Backoff, delayOf } from '@slipway/program';
import type { Labels, Snapshot, SnapshotRequest } from '../provider.js';
import { ProviderError } from '../provider-error.js';
import { ActionFailed, mayHaveRun } from './api-error.js';
import { type HetznerClient, pathOf } from './client.js';
import { selectorOf } from './labels.js';
import { type Action, type Image, responses } from './schemas.js';

const POLL: Backoff = { firstMs: 500, maxMs: 10_000 };
/** A full disk of 240 GB takes several minutes. */
const LIMIT_MS = 30 * 60_000;

const snapshotOf = ({ id, labels, description, status, disk_size, created }: Image): Snapshot => ({
  id: String(id),
  labels,
  description,
  isComplete: status === 'available',
  diskGb: disk_size,
  createdAt: new Date(created),
});

export const listSnapshots = async (client: HetznerClient, labels: Labels, signal: AbortSignal): Promise<Snapshot[]> =>
  (await client.list('images', { ...selectorOf(labels), type: 'snapshot' }, signal)).map(snapshotOf);

export async function createSnapshot(
  client: HetznerClient,
  machine: string,
  request: SnapshotRequest,
  signal: AbortSignal,
): Promise<Snapshot> {
  const [existing] = await listSnapshots(client, request.labels, signal);
  return completed(client, existing?.id ?? (await begin(client, machine, request, signal)), signal);
}

/** Begins a snapshot and returns its id. If the response is lost, the snapshot is found by its labels. */
async function begin(
  client: HetznerClient,
  machine: string,
  { labels, description }: SnapshotRequest,
  signal: AbortSignal,
): Promise<string> {
  const path = `${pathOf('servers', machine)}/actions/create_image`;
  const body = { type: 'snapshot', labels, description };
  const call = { method: 'POST', path, body, response: responses.imageAndAction, repeatable: false } as const;
  try {
    const { image, action } = await client.request(call, signal);
    await finishOrDelete(client, { id: String(image.id), action }, signal);
    return String(image.id);
  } catch (error) {
    const [begun] = mayHaveRun(error) ? await listSnapshots(client, labels, signal) : [];
    if (!begun) throw error;
    return begun.id;
  }
}

/** Deletes the half snapshot of an action that failed: it would be found by its labels, and never be complete. */
async function finishOrDelete(
  client: HetznerClient,
  { id, action }: { id: string; action: Action },
  signal: AbortSignal,
) {
  try {
    await client.finish(action, signal, LIMIT_MS);
  } catch (error) {
    if (error instanceof ActionFailed) await deleteSnapshot(client, id, signal);
    throw error;
  }
}

async function completed(client: HetznerClient, id: string, signal: AbortSignal): Promise<Snapshot> {
  const call = { method: 'GET', path: pathOf('images', id), response: responses.image, repeatable: true } as const;
  for (let poll = 1, waitedMs = 0; ; poll += 1) {
    const snapshot = snapshotOf((await client.request(call, signal)).image);
    if (snapshot.isComplete) return snapshot;
    if (waitedMs > LIMIT_MS) throw new ProviderError('unavailable', 'The snapshot is not complete yet.');
    const ms = delayOf(POLL, poll);
    await client.pause(ms, signal);
    waitedMs += ms;
  }
}

export async function deleteSnapshot(client: HetznerClient, id: string, signal: AbortSignal): Promise<void> {
  await client.deleteObject(pathOf('images', id), signal);
}

/**
 * Creates one object for its labels, also if the response to the creation is lost. The provider accepts a name once, so
 * a repeated creation can't make a second object.
 */
import { type Backoff, delayOf } from '@slipway/program';
import type { Labels } from '../provider.js';
import { ProviderError } from '../provider-error.js';
import { hasCode, mayHaveRun } from './api-error.js';
import type { HetznerClient } from './client.js';
import { hasLabels, selectorOf } from './labels.js';
import type { Listed } from './schemas.js';

const TRIES = 3;
/** The pause after a lost response: the provider may still execute the request. */
const PAUSE: Backoff = { firstMs: 1_000, maxMs: 5_000 };

type Created = 'servers' | 'ssh_keys' | 'firewalls';

export interface Creation<K extends Created> {
  kind: K;
  name: string;
  labels: Labels;
  create(signal: AbortSignal): Promise<Listed[K]>;
}

/** Returns the oldest object with the labels. Undefined: there is none. */
export async function findByLabels<K extends keyof Listed>(
  client: HetznerClient,
  kind: K,
  labels: Labels,
  signal: AbortSignal,
): Promise<Listed[K] | undefined> {
  const found = (await client.list(kind, selectorOf(labels), signal)) as (Listed[K] & { id: number })[];
  return found.toSorted((a, b) => a.id - b.id)[0];
}

/** Creates the object, which was not found by its labels. */
export async function createOnce<K extends Created>(
  client: HetznerClient,
  creation: Creation<K>,
  signal: AbortSignal,
): Promise<Listed[K]> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await creation.create(signal);
    } catch (error) {
      const isTaken = hasCode(error, 'uniqueness_error');
      if (!isTaken && !mayHaveRun(error)) throw error;
      const made = isTaken
        ? await findByName(client, creation, error, signal)
        : await findByLabels(client, creation.kind, creation.labels, signal);
      if (made) return made;
      if (attempt === TRIES) throw error;
      await client.pause(delayOf(PAUSE, attempt), signal);
    }
  }
}

/** Undefined: an object of the name was deleted a moment ago. */
async function findByName<K extends Created>(
  client: HetznerClient,
  { kind, name, labels }: Creation<K>,
  error: ProviderError,
  signal: AbortSignal,
): Promise<Listed[K] | undefined> {
  const named = await client.list(kind, { name }, signal);
  const own = named.find((each) => hasLabels(each as { labels: Labels }, labels));
  if (own || named.length === 0) return own;
  throw new ProviderError('conflict', `${error.problem} The name is ${name}, and its labels are not ours.`);
}

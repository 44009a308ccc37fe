/** Deploys sites over REST and webhooks, on one machine or a cluster. In: a person’s client. Out: their builds. */
import { createHmac, randomUUID } from 'node:crypto';
import { until } from '@slipway/testing';
import * as assert from 'uvu/assert';
import type { Management, ProjectView } from './management.js';
import type { Platform } from './platform.js';

export interface BuildView {
  id: number;
  name: string;
  phase: string;
  message: string;
  commit: string | null;
  live: boolean;
  trigger: string;
  steps: { name: string; exit_code: number | null }[];
}

/** `github_token` grants access to the repository. */
export interface Source {
  repo_url: string;
  github_token: string;
}

const FINISHED = new Set(['Deployed', 'Failed', 'Cancelled', 'Removed']);

export async function createSite(person: Management, name: string, source?: Source): Promise<ProjectView> {
  const project = await person.untilHealthy((await person.createProject(name, undefined, 'frontend')).id);
  if (source) assert.is((await person.call('PATCH', `/projects/${project.id}`, source)).status, 200);
  return project;
}

/** Returns the name of the Build. */
export async function deploy(
  person: Management,
  { id }: Pick<ProjectView, 'id'>,
  route: 'deploy' | 'compute/deploy' = 'deploy',
): Promise<string> {
  const { status, body } = await person.call<{ message: string }>('POST', `/projects/${id}/${route}`);
  assert.is(status, 200, JSON.stringify(body));
  return body.message.split(' ')[0] as string;
}

export const buildsOf = async (person: Management, { id }: Pick<ProjectView, 'id'>): Promise<BuildView[]> =>
  (await person.call<BuildView[]>('GET', `/projects/${id}/builds`)).body;

/** Sends a push, or the deletion of a branch, signed like GitHub's. */
export async function deliver(
  { url, network }: Pick<Platform, 'url' | 'network'>,
  { id }: Pick<ProjectView, 'id'>,
  secret: string,
  payload: object,
): Promise<{ message: string }> {
  const body = JSON.stringify(payload);
  const signature = createHmac('sha256', secret).update(body).digest('hex');
  const answer = await network.fetch(`${url}/projects/${id}/deploy`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-github-event': 'push',
      'x-github-delivery': randomUUID(),
      'x-hub-signature-256': `sha256=${signature}`,
    },
    body,
  });
  assert.is(answer.status, 200, body);
  return (await answer.json()) as { message: string };
}

/** `patience` is in milliseconds. */
export const buildEnded = (
  person: Management,
  project: Pick<ProjectView, 'id'>,
  name: string,
  patience: number,
): Promise<BuildView> =>
  until(
    async () => {
      const build = (await buildsOf(person, project)).find((each) => each.name === name);
      return build && FINISHED.has(build.phase) ? build : undefined;
    },
    `${name} ends`,
    patience,
  );

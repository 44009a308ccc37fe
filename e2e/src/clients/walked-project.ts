/** The input of the clients' suites: a project on any platform, and its owner. */

import { randomUUID } from 'node:crypto';
import { type Plan } from '@slipway/crds';
import { LABEL_PROJECT, namespaceOf, SECRETS } from '@slipway/installation';
import { withClient } from '@slipway/kubernetes/testing.js';
import { Management, type ProjectView } from '../management.js';
import type { Platform } from '../platform.js';

export interface WalkedProject {
  platform: Platform;
  person: Management;
  project: ProjectView;
  /** Returns the headers with a key, for any client of a service. */
  headers(key: string): Record<string, string>;
  /** An access token of a new user. */
  userToken(): Promise<string>;
  /** Sets settings of the project's auth service, as an administrator does. */
  configureAuth(settings: Record<string, string>): Promise<void>;
}

export async function projectToWalk(platform: Platform, plan: Plan): Promise<WalkedProject> {
  const person = await Management.register(platform);
  const project = await person.untilHealthy((await person.createProject('walked', plan)).id);
  const headers = (key: string) => ({ apikey: key, Authorization: `Bearer ${key}` });
  async function ask(path: string, key: string, body: object): Promise<Record<string, unknown>> {
    const response = await platform.network.fetch(`${project.project_url}/auth/v1${path}`, {
      method: 'POST',
      headers: { ...headers(key), 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
    return (await response.json()) as Record<string, unknown>;
  }
  return {
    platform,
    person,
    project,
    headers,
    userToken: async () => {
      const login = { email: `${randomUUID()}@example.com`, password: randomUUID() };
      await ask('/admin/users', project.service_role_key, { ...login, email_confirm: true });
      return (await ask('/token?grant_type=password', project.anon_key, login)).access_token as string;
    },
    configureAuth: async (stringData) => {
      const namespace = namespaceOf(project.ref);
      const metadata = { name: SECRETS.auth.name, namespace, labels: { [LABEL_PROJECT]: project.ref } };
      const secrets = `/api/v1/namespaces/${namespace}/secrets`;
      await withClient(platform.kubeconfig, (client) => client.create<object>(secrets, { metadata, stringData }));
    },
  };
}

/** The data of a client's successful result. */
type Data<Answer> = Answer extends { error: null; data: infer Given } ? NonNullable<Given> : never;

export function good<Answer extends { data: unknown; error: unknown }>(answer: Answer): Data<Answer> {
  if (answer.error) throw answer.error;
  return answer.data as Data<Answer>;
}

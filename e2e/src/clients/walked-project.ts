/** The input of the clients' walks: a project on any platform, and its owner. */
import { randomUUID } from 'node:crypto';
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import { LABEL_PROJECT, namespaceOf, type Plan, SECRETS } from '@slipway/crds';
import { Management, type ProjectView } from '../management.js';
import type { Platform } from '../platform.js';

export interface WalkedProject {
  platform: Platform;
  person: Management;
  project: ProjectView;
  /** Returns the headers of a key, as every client of a service gets them. */
  headers(key: string): Record<string, string>;
  /** An access token of a new user. */
  userToken(): Promise<string>;
  /** Settings of its auth service, as who runs the platform sets them. */
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
      const config = new KubeConfig();
      config.loadFromFile(platform.kubeconfig);
      const namespace = namespaceOf(project.ref);
      const metadata = { name: SECRETS.auth.name, namespace, labels: { [LABEL_PROJECT]: project.ref } };
      await config.makeApiClient(CoreV1Api).createNamespacedSecret({ namespace, body: { metadata, stringData } });
    },
  };
}

/** The data of a client's successful result. */
type Data<Answer> = Answer extends { error: null; data: infer Given } ? NonNullable<Given> : never;

export function good<Answer extends { data: unknown; error: unknown }>(answer: Answer): Data<Answer> {
  if (answer.error) throw answer.error;
  return answer.data as Data<Answer>;
}

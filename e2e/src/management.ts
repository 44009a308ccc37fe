/** A person's client of the management API, with a registered account and a personal access token. */
import { randomUUID } from 'node:crypto';
import type { Plan, ProjectType } from '@slipway/crds';
import { until } from '@slipway/testing';
import type { Platform } from './platform.js';

/** Maximum milliseconds until a project with pods is healthy on a busy machine. */
const HEALTHY_PATIENCE_MS = 180_000;

export interface ProjectView {
  id: number;
  ref: string;
  name: string;
  status: string;
  provision_message?: string;
  project_url: string;
  postgrest_url: string;
  db_url: string;
  anon_key: string;
  service_role_key: string;
  webhook_secret: string;
}

export interface Answer<T> {
  status: number;
  body: T;
}

type At = Pick<Platform, 'url' | 'network'>;

/** Addresses of the accounts that were registered at each platform. */
const registered = new WeakMap<At, Set<string>>();

export const registeredAt = (platform: At): ReadonlySet<string> => registered.get(platform) ?? new Set();

export class Management {
  readonly email: string;
  readonly #platform: At;
  #token: string;

  private constructor(platform: At, email: string, token: string) {
    this.#platform = platform;
    this.email = email;
    this.#token = token;
  }

  /** Registers an account, and uses a personal access token of it. */
  static async register(
    platform: At,
    email = `${randomUUID()}@example.com`,
    password: string = randomUUID(),
    scopes?: string[],
  ): Promise<Management> {
    const answer = await call<{ token: string }>(platform, 'POST', '/auth/register', { email, password });
    if (answer.status !== 201) throw new Error(`register answered ${answer.status}: ${JSON.stringify(answer.body)}`);
    registered.set(platform, new Set([...registeredAt(platform), email]));
    const person = new Management(platform, email, answer.body.token);
    const created = await person.call<{ token: string }>('POST', '/tokens', {
      name: 'test',
      ...(scopes ? { scopes } : {}),
    });
    if (created.status !== 201) throw new Error(`tokens answered ${created.status}: ${JSON.stringify(created.body)}`);
    person.#token = created.body.token;
    return person;
  }

  /** Uses a user token of a registered account. */
  static async login(platform: At, account: { email: string; password: string }): Promise<Management> {
    const { status, body } = await call<{ token: string }>(platform, 'POST', '/auth/login', account);
    if (status !== 200) throw new Error(`login answered ${status}: ${JSON.stringify(body)}`);
    return new Management(platform, account.email, body.token);
  }

  /** Uses an existing personal access token. */
  static withToken(platform: At, email: string, token: string): Management {
    return new Management(platform, email, token);
  }

  get token(): string {
    return this.#token;
  }

  call<T = unknown>(method: string, path: string, body?: unknown): Promise<Answer<T>> {
    return call(this.#platform, method, path, body, this.#token);
  }

  /** Creates a project. Throws if the status is not 201. */
  async createProject(name: string, plan?: Plan, type?: ProjectType): Promise<ProjectView> {
    const spec = { name, ...(plan && { plan }), ...(type && { backend_type: type }) };
    const { status, body } = await this.call<ProjectView>('POST', '/projects', spec);
    if (status !== 201) throw new Error(`POST /projects answered ${status}: ${JSON.stringify(body)}`);
    return body;
  }

  async untilHealthy(id: number, patience = HEALTHY_PATIENCE_MS): Promise<ProjectView> {
    await until(
      async () => {
        const { body } = await this.call<{ status: string }>('GET', `/projects/${id}/status`);
        return body.status === 'healthy';
      },
      `project ${id} is healthy`,
      patience,
    );
    return (await this.call<ProjectView>('GET', `/projects/${id}`)).body;
  }

  async query(
    id: number,
    sql: string,
  ): Promise<{ rows: Record<string, unknown>[]; row_count: number; command: string }> {
    const { status, body } = await this.call('POST', `/projects/${id}/query`, { sql });
    if (status !== 200) throw new Error(`query answered ${status}: ${JSON.stringify(body)}`);
    return body as never;
  }

  async untilGone(id: number): Promise<void> {
    await until(
      async () => {
        const { status } = await this.call('GET', `/projects/${id}`);
        return status === 404;
      },
      `project ${id} is deleted`,
      HEALTHY_PATIENCE_MS,
    );
  }
}

async function call<T>(
  { url, network }: At,
  method: string,
  path: string,
  body?: unknown,
  token?: string,
): Promise<Answer<T>> {
  const response = await network
    .fetch(`${url}${path}`, {
      method,
      headers: {
        ...(token ? { authorization: `Bearer ${token}` } : {}),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    })
    .catch((error: Error) => {
      throw new Error(`${method} ${path}: ${error.message}`, { cause: error });
    });
  const text = await response.text();
  if (text !== '' && !response.headers.get('content-type')?.includes('json')) {
    throw new Error(`${method} ${path} responded ${response.status} without JSON: ${text.slice(0, 200)}`);
  }
  return { status: response.status, body: (text ? JSON.parse(text) : undefined) as T };
}

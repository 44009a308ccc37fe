/** A new platform for one bench, deleted when it closes, with the operations that benches need. */

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProjectType } from '@slipway/crds';
import { Management, type ProjectView } from '@slipway/e2e/management.js';
import { type RunningPlatform, startPlatform } from '@slipway/e2e/platform.js';
import { authenticatorRole, databaseIdOf, namespaceOf, SECRETS } from '@slipway/installation';
import type { Secret } from '@slipway/kubernetes';
import { withClient } from '@slipway/kubernetes/testing.js';
import { children } from './measure/processes.js';
import type { Login } from './rest/database.js';
import { type Project, SUPABASE_REST_PATH } from './rest/dataset.js';

const HEALTHY_TIMEOUT_MS = 60_000;
const POLL_MS = 10;

function programOf(commandLine: string): string | undefined {
  if (!commandLine.includes('bin/postgres')) return /\/(\w+)\/dist\/main\.js/.exec(commandLine)?.[1];
  return commandLine.includes('platform-postgres') ? 'platform-postgres' : 'postgres';
}

export class Platform {
  readonly running: RunningPlatform;
  readonly #management: Management;

  private constructor(running: RunningPlatform, management: Management) {
    this.running = running;
    this.#management = management;
  }

  /** `main`: the one-machine program of another checkout; undefined: that of this checkout. */
  static async start(environment: Record<string, string> = {}, main?: string): Promise<Platform> {
    const running = await startPlatform(undefined, environment, main);
    try {
      return new Platform(running, await Management.register(running));
    } catch (error) {
      await running.remove();
      throw error;
    }
  }

  /**
   * Resolves once the project's status is healthy. With many projects at once, pass a longer `pollMs`: frequent polls
   * would themselves become the load.
   */
  async createProject(pollMs = POLL_MS, type?: ProjectType, patienceMs = HEALTHY_TIMEOUT_MS): Promise<ProjectView> {
    const { id } = await this.#management.createProject(`bench-${randomUUID().slice(0, 8)}`, undefined, type);
    const deadline = Date.now() + patienceMs;
    for (;;) {
      const { body } = await this.#management.call<{ status: string }>('GET', `/projects/${id}/status`);
      if (body.status === 'healthy') break;
      if (body.status === 'error' || Date.now() > deadline) throw new Error(`project ${id} is ${body.status}`);
      await sleep(pollMs);
    }
    return (await this.#management.call<ProjectView>('GET', `/projects/${id}`)).body;
  }

  async deployFunction({ id }: ProjectView, name: string, code: string): Promise<void> {
    const created = await this.#management.call<{ id: number }>('POST', `/projects/${id}/functions`, { name, code });
    const path = `/projects/${id}/functions/${created.body.id}/deploy`;
    const { status, body } = await this.#management.call('POST', path);
    if (status !== 200) throw new Error(`the function was not deployed: ${JSON.stringify(body)}`);
  }

  async query(project: ProjectView, sql: string): Promise<void> {
    await this.#management.query(project.id, sql);
  }

  /** Returns the address and the password of the data plane's login in the project's database. */
  async authenticatorLogin({ ref }: ProjectView): Promise<Login> {
    const { name, ...keys } = SECRETS.database;
    const value = await this.#secret(ref, name);
    return {
      host: value(keys.host),
      port: Number(value(keys.port)),
      database: value(keys.database),
      user: authenticatorRole(databaseIdOf(ref, { [keys.id]: value(keys.id) })),
      password: value(keys.authenticatorPassword),
    };
  }

  /** Returns the secret that signs the tokens of the project's users. */
  async jwtSecret({ ref }: ProjectView): Promise<string> {
    const { name, jwtSecret } = SECRETS.keys;
    return (await this.#secret(ref, name))(jwtSecret);
  }

  /** Uses the loopback address, so that no name server is part of a measurement. */
  served({ ref, anon_key }: ProjectView): Project {
    const baseUrl = `http://127.0.0.1:${this.running.port}/p/${ref}`;
    return { baseUrl, restPath: SUPABASE_REST_PATH, anonKey: anon_key };
  }

  /** Process ids of the programs that the supervisor runs; `postgres` is the one with the projects' databases. */
  async programs(): Promise<Record<string, number>> {
    const programs: Record<string, number> = {};
    for (const { pid, commandLine } of await children(this.running.pid)) {
      const name = programOf(commandLine);
      if (name) programs[name] = pid;
    }
    return programs;
  }

  async #secret(ref: string, name: string): Promise<(key: string) => string> {
    const path = `/api/v1/namespaces/${namespaceOf(ref)}/secrets/${name}`;
    const secret = await withClient(this.running.kubeconfig, (client) => client.get<Secret>(path));
    return (key) => Buffer.from(secret.data?.[key] ?? '', 'base64').toString();
  }

  async close(): Promise<void> {
    await this.running.remove();
  }
}

/**
 * postrust-server, a PostgREST-compatible server in Rust, configured as its documentation shows, with PostgREST's paths
 * and responses (its compatibility mode). Its pool size is fixed at its start, so another size is another process on
 * the same port.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from '@slipway/testing';
import type { Login } from './database.js';

const PATIENCE_MS = 10_000;
const POLL_MS = 20;
const FIRST_POOL_SIZE = 4;

export interface PostrustSettings {
  binary: string;
  login: Login;
  jwtSecret: string;
}

export class Postrust {
  #child: ChildProcess | undefined;

  private constructor(
    private readonly settings: PostrustSettings,
    readonly port: number,
  ) {}

  static async start(settings: PostrustSettings): Promise<Postrust> {
    const postrust = new Postrust(settings, await freePort());
    await postrust.setPoolSize(FIRST_POOL_SIZE);
    return postrust;
  }

  get pid(): number {
    return this.#child?.pid as number;
  }

  async setPoolSize(size: number): Promise<void> {
    await this.close();
    const child = spawn(this.settings.binary, { env: this.#environment(size), stdio: ['ignore', 2, 2] });
    this.#child = child;
    const deadline = performance.now() + PATIENCE_MS;
    while (!(await this.#answers())) {
      if (hasEnded(child) || performance.now() > deadline) throw new Error('postrust-server did not start');
      await pause(POLL_MS);
    }
  }

  async close(): Promise<void> {
    const child = this.#child;
    if (!child || hasEnded(child)) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  #environment(poolSize: number): Record<string, string> {
    const { login, jwtSecret } = this.settings;
    const { user, password, database, host, port } = login;
    const [name, secret, folder] = [user, password, host].map(encodeURIComponent);
    return {
      DATABASE_URL: `postgres://${name}:${secret}@localhost:${port}/${database}?host=${folder}`,
      PGRST_DB_SCHEMAS: 'public',
      PGRST_DB_ANON_ROLE: 'anon',
      PGRST_DB_POOL: String(poolSize),
      PGRST_JWT_SECRET: jwtSecret,
      PGRST_SERVER_HOST: '127.0.0.1',
      PGRST_SERVER_PORT: String(this.port),
      PGRST_COMPAT_MODE: 'true',
      PGRST_LOG_LEVEL: 'error',
    };
  }

  #answers(): Promise<boolean> {
    return fetch(`http://127.0.0.1:${this.port}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    );
  }
}

const hasEnded = ({ exitCode, signalCode }: ChildProcess) => exitCode !== null || signalCode !== null;

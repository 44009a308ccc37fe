/** Storage service of projects with real databases, behind the real gateway, for tests. */
import { mkdtemp, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { StorageClient } from '@supabase/storage-js';
import pg from 'pg';
import { pino } from 'pino';
import { createGateway } from '../../gateway/server.js';
import type { Patience } from '../../http/slow-clients.js';
import { signToken, startTestCluster, type TestProject } from '../../testing/project.js';
import { createManagement } from '../../upstreams/management.js';
import { createStorageService, type StorageOptions } from './index.js';

export interface StorageHarness {
  directory: string;
  url: string;
  project(ref: string): Promise<StorageProject>;
  /** Runs SQL as superuser, in the database `postgres`. */
  superuser(sql: string): Promise<void>;
  close(): Promise<void>;
}

export interface StorageProject extends TestProject {
  /** URL of the project's storage service. */
  storageUrl: string;
  /** Runs a query as the project's owner. */
  sql(text: string): Promise<Record<string, unknown>[]>;
  /** Returns a client of the service role, or of a user. */
  client(sub?: string): Promise<StorageClient>;
  token(sub: string): Promise<string>;
  /** Sends a request with a service_role key, unless the headers have another. */
  fetch(path: string, init?: RequestInit & { keyless?: boolean }): Promise<Response>;
}

export async function startStorageHarness(
  options: Partial<StorageOptions> = {},
  patience: Partial<Patience> = {},
): Promise<StorageHarness> {
  const cluster = await startTestCluster();
  const directory = options.directory ?? (await mkdtemp(path.join(tmpdir(), 'slipway-storage-')));
  const tenants = new Map<string, TestProject>();
  const log = pino({ level: 'silent' });
  const storage = createStorageService({ log, ...options, directory });
  const management = createManagement('/nonexistent/api.sock', 'http://localhost');
  const gateway = createGateway({
    publicUrl: 'http://localhost',
    tenant: (ref) => tenants.get(ref),
    complete: () => true,
    services: { storage },
    management,
    limits: patience,
    log,
  });
  await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;

  async function project(ref: string): Promise<StorageProject> {
    const made = await cluster.project(ref, url);
    tenants.set(ref, made);
    const storageUrl = `${url}/p/${ref}/storage/v1`;
    const token = (sub: string) => signToken({ role: 'authenticated', sub }, made.jwtSecret);
    return {
      ...made,
      storageUrl,
      token,
      sql: async (text) => {
        const session = new pg.Client(made.owner);
        await session.connect();
        try {
          return (await session.query(text)).rows;
        } finally {
          await session.end();
        }
      },
      client: async (sub) => {
        const bearer = sub === undefined ? made.serviceRoleKey : await token(sub);
        return new StorageClient(storageUrl, {
          apikey: sub === undefined ? made.serviceRoleKey : made.anonKey,
          Authorization: `Bearer ${bearer}`,
        });
      },
      fetch: (path, { keyless = false, ...init } = {}) =>
        fetch(storageUrl + path, {
          ...init,
          headers: { ...(keyless ? {} : { apikey: made.serviceRoleKey }), ...init.headers },
        }),
    };
  }

  async function superuser(sql: string): Promise<void> {
    const session = new pg.Client(cluster.postgres.admin());
    await session.connect();
    await session.query(sql).finally(() => session.end());
  }

  return {
    directory,
    url,
    project,
    superuser,
    close: async () => {
      gateway.closeAllConnections();
      await new Promise((resolve) => gateway.close(resolve));
      management.close();
      await storage.close();
      await cluster.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

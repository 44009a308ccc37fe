/** Realtime behind a real gateway, over projects with real databases, for tests. */
import type { AddressInfo } from 'node:net';
import { openReplication } from '@slipway/project-database';
import { until } from '@slipway/testing';
import { RealtimeClient, type RealtimeClientOptions } from '@supabase/supabase-js';
import pg from 'pg';
import { pino } from 'pino';
import { suite } from 'uvu';
import { WebSocket } from 'ws';
import { createGateway } from '../../../gateway/server.js';
import type { BackendTenant } from '../../../projects/tenant.js';
import { signToken, startTestCluster, type TestCluster } from '../../../testing/project.js';
import { createRealtimeService, ReaderShares } from '../index.js';
import type { Version } from '../protocol/messages.js';

export interface RealtimeHarness {
  cluster: TestCluster;
  project(ref: string, plan?: BackendTenant['plan']): Promise<BackendTenant>;
  /** Runs SQL as the owner of the project. */
  sql(tenant: BackendTenant, text: string, values?: unknown[]): Promise<Record<string, unknown>[]>;
  /** Runs SQL as superuser, in the database `postgres`. */
  admin(text: string, values?: unknown[]): Promise<Record<string, unknown>[]>;
  url(tenant: BackendTenant): string;
  client(tenant: BackendTenant, options?: Partial<RealtimeClientOptions> & { token?: string }): RealtimeClient;
  token(tenant: BackendTenant, claims: object): Promise<string>;
  /** Raw socket, for messages that no library would send. */
  socket(tenant: BackendTenant, key?: string, version?: Version): Promise<RawSocket>;
  /** Replaces the tenant by another of the same database. */
  change(tenant: BackendTenant): void;
  /** Releases the project, as after a suspension. */
  forget(tenant: BackendTenant): Promise<void>;
  close(): Promise<void>;
}

/** Suite of tests with its own harness. */
export function realtimeSuite(name: string) {
  const test = suite<{ harness: RealtimeHarness }>(name);
  test.before(async (context) => {
    context.harness = await startRealtimeHarness();
  });
  test.after(async ({ harness }) => {
    await harness.close();
  });
  return test;
}

/** Prefix of refs of projects that share an account, which may read the changes of a limited number of projects. */
export const OF_ONE_ACCOUNT = 'of-one-account-';
export const MOST_READ = 2;

export const REPLICATION_PASSWORD = 'of-the-reader-of-changes';

export async function startRealtimeHarness(): Promise<RealtimeHarness> {
  const cluster = await startTestCluster();
  const tenants = new Map<string, BackendTenant>();
  const admin = (text: string, values: unknown[] = []) => query(cluster.postgres.admin(), text, values);
  await openReplication({ query: async (text) => ({ rows: await admin(text) }) }, REPLICATION_PASSWORD);
  const log = pino({ level: process.env.TEST_LOG_LEVEL ?? 'silent' });
  const realtime = createRealtimeService({
    log,
    replication: async () => REPLICATION_PASSWORD,
    shares: new ReaderShares((ref) => (ref.startsWith(OF_ONE_ACCOUNT) ? OF_ONE_ACCOUNT : ref), MOST_READ),
  });
  const gateway = createGateway({
    publicUrl: 'http://localhost:4000',
    tenant: (ref) => tenants.get(ref),
    complete: () => true,
    services: { realtime },
    rateLimit: 0,
    management: { forward: () => undefined, close: () => undefined },
    log,
  });
  await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve));
  const { port } = gateway.address() as AddressInfo;
  const url = ({ ref }: BackendTenant) => `http://127.0.0.1:${port}/p/${ref}/realtime/v1`;
  const clients: RealtimeClient[] = [];
  const sockets: RawSocket[] = [];

  return {
    cluster,
    admin,
    url,
    project: async (ref, plan = 'team') => {
      const tenant = { ...(await cluster.project(ref)), plan };
      tenants.set(ref, tenant);
      return tenant;
    },
    sql: (tenant, text, values = []) => query(tenant.owner, text, values),
    client: (tenant, { token, ...options } = {}) => {
      const client = new RealtimeClient(url(tenant).replace('http', 'ws'), {
        params: { apikey: tenant.anonKey },
        ...options,
      });
      if (token) void client.setAuth(token);
      clients.push(client);
      return client;
    },
    token: (tenant, claims) => signToken(claims as never, tenant.jwtSecret),
    socket: async (tenant, key = tenant.anonKey, version = '2.0.0') => {
      const socket = await RawSocket.open(
        `${url(tenant).replace('http', 'ws')}/websocket?apikey=${key}&vsn=${version}`,
      );
      sockets.push(socket);
      return socket;
    },
    change: (tenant) => {
      tenants.set(tenant.ref, tenant);
      realtime.change?.(tenant);
    },
    forget: ({ ref }) => realtime.forget(ref),
    close: async () => {
      await Promise.all(clients.map((client) => client.disconnect()));
      for (const socket of sockets) socket.webSocket.terminate();
      gateway.closeAllConnections();
      await new Promise((resolve) => gateway.close(resolve));
      await realtime.close();
      await cluster.close();
    },
  };
}

async function query(login: pg.ClientConfig, text: string, values: unknown[]): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(login);
  client.on('error', () => undefined);
  await client.connect();
  try {
    const { rows } = await client.query(text, values.length > 0 ? values : undefined);
    return rows ?? [];
  } finally {
    await client.end();
  }
}

/** Records received messages in order: arrays of 2.0.0, objects of 1.0.0, binary ones as bytes. */
export class RawSocket {
  readonly received: unknown[] = [];
  closed: { code: number; reason: string } | undefined;
  #ref = 0;

  private constructor(readonly webSocket: WebSocket) {
    webSocket.on('message', (data, isBinary) => {
      this.received.push(isBinary ? data : JSON.parse(String(data)));
    });
    webSocket.on('close', (code, reason) => {
      this.closed = { code, reason: String(reason) };
    });
    webSocket.on('error', () => undefined);
  }

  static async open(url: string): Promise<RawSocket> {
    const webSocket = new WebSocket(url, { perMessageDeflate: false });
    const socket = new RawSocket(webSocket);
    await new Promise<void>((resolve, reject) => {
      webSocket.once('open', resolve);
      webSocket.once('error', reject);
    });
    return socket;
  }

  push(topic: string, event: string, payload: unknown): string {
    const ref = String(++this.#ref);
    this.webSocket.send(JSON.stringify([ref, ref, topic, event, payload]));
    return ref;
  }

  /** Returns the reply to a message: `{status, response}`. */
  async ask(
    topic: string,
    event: string,
    payload: unknown,
  ): Promise<{ status: string; response: { reason?: string } }> {
    const ref = this.push(topic, event, payload);
    const isAnswer = (message: unknown) => Array.isArray(message) && message[1] === ref && message[3] === 'phx_reply';
    await until(() => this.received.some(isAnswer) || this.closed !== undefined, `an answer to ${event}`);
    return (this.received.find(isAnswer) as unknown[] | undefined)?.[4] as never;
  }

  events(event: string): { payload: Record<string, unknown> }[] {
    return this.received.flatMap((message) =>
      Array.isArray(message) && message[3] === event ? { payload: message[4] as Record<string, unknown> } : [],
    );
  }
}

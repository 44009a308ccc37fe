/** For tests: an API server with its own Postgres. Closing it removes both. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { type Logger, pino } from 'pino';
import { makeCertificates } from './certificate.js';
import type { ConnectionLimits } from './http/connection-guard.js';
import { kubeconfigOf } from './kubeconfig.js';
import { type ApiServer, startApiServer } from './server.js';

export interface TestApiServer {
  /** Path of a kubeconfig file. */
  kubeconfig: string;
  url: string;
  /** Certificate of the authority in PEM. */
  ca: string;
  token: string;
  postgres: TestPostgres;
  /** Stops the server and starts another over the same tables, at the same address. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

export interface TestOptions {
  /** CustomResourceDefinitions to serve from the start. */
  crds?: readonly object[];
  log?: Logger;
  limits?: Partial<ConnectionLimits>;
}

export async function startTestApiServer({ crds = [], log, limits }: TestOptions = {}): Promise<TestApiServer> {
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-apiserver-'));
  const postgres = await startTestPostgres();
  const token = randomBytes(24).toString('base64url');
  const { ca, cert, key } = await makeCertificates(['127.0.0.1', 'localhost']);
  const settings = {
    listen: { host: '127.0.0.1', port: 0 },
    tls: { cert, key },
    databaseUrl: databaseUrl(postgres),
    encryptionKeys: { current: 'test', keys: { test: randomBytes(32).toString('base64') } },
    tokens: [{ token, user: 'admin', groups: ['system:masters'] }],
    log: log ?? pino({ level: 'silent' }),
    limits,
  };
  let server: ApiServer | undefined;
  const close = async () => {
    await server?.close();
    await postgres.close();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    server = await startApiServer(settings);
    settings.listen.port = Number(new URL(server.url).port);
    const kubeconfig = path.join(folder, 'kubeconfig');
    await writeFile(kubeconfig, kubeconfigOf({ url: server.url, ca, token }), { mode: 0o600 });
    await define({ url: server.url, ca, token }, crds);
    const restart = async () => {
      await server?.close();
      server = undefined;
      server = await startApiServer(settings);
    };
    return { kubeconfig, url: server.url, ca, token, postgres, restart, close };
  } catch (error) {
    await close();
    throw error;
  }
}

export function databaseUrl(postgres: TestPostgres): string {
  const { user, password, host, port, database } = postgres.admin();
  return `postgresql://${user}:${password}@/${database}?host=${encodeURIComponent(host)}&port=${port}`;
}

async function define({ url, ca, token }: { url: string; ca: string; token: string }, crds: readonly object[]) {
  for (const crd of crds) {
    const address = `${url}/apis/apiextensions.k8s.io/v1/customresourcedefinitions`;
    const { code, body } = await post(address, { ca, token }, JSON.stringify(crd));
    if (code !== 201) throw new Error(`a definition was refused: ${body}`);
  }
}

async function post(address: string, { ca, token }: { ca: string; token: string }, json: string) {
  return new Promise<{ code: number; body: string }>((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const outgoing = request(address, { method: 'POST', ca, headers, agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (chunk) => (body += chunk));
      response.on('end', () => resolve({ code: response.statusCode ?? 0, body }));
    });
    outgoing.on('error', reject).end(json);
  });
}

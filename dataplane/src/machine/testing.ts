/** The services of one project as processes behind a proxy that routes by path, for tests. */
import { type ChildProcess, fork } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { type ClientRequest, createServer, type IncomingMessage, request, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { PROJECT_SERVICES, type ProjectService } from '@slipway/crds';
import { type MachineProject, machineProjectText } from '@slipway/installation';
import { replaceFile } from '@slipway/program';
import { keepForReport, until } from '@slipway/testing';
import type { BackendTenant } from '../projects/tenant.js';
import type { Login } from '../sql/login.js';

export interface TestMachine {
  folder: string;
  /** Returns the Unix socket of a service. */
  socketOf(service: ProjectService): string;
  processes: Readonly<Record<ProjectService, ChildProcess>>;
  /** Returns all that the services have logged. */
  output(): string;
  /** Replaces the project's document without waiting. */
  write(text: string): Promise<void>;
  /** Replaces the project's document, and waits until all services use it. */
  change(project: MachineProject): Promise<void>;
  revisionOf(service: ProjectService): Promise<string | undefined>;
  close(): Promise<void>;
}

export const documentOf = (
  { ref, url, plan, jwtSecret, anonKey, serviceRoleKey, replicationSlot, ...tenant }: BackendTenant,
  replicationPassword: string,
): MachineProject => ({
  revision: '1',
  ref,
  type: 'dedicated',
  plan,
  services: [...PROJECT_SERVICES],
  url,
  jwt: { secret: jwtSecret },
  apiKeys: { anon: anonKey, serviceRole: serviceRoleKey },
  logins: {
    authenticator: loginIn(tenant.authenticator),
    authAdmin: loginIn(tenant.authAdmin),
    owner: loginIn(tenant.owner),
  },
  replication: { slot: replicationSlot, password: replicationPassword },
  authConfig: { GOTRUE_MAILER_AUTOCONFIRM: 'true' },
  environment: { GREETING: 'hello' },
});

const loginIn = ({ host, port, database, user, password }: Login) => ({ host, port, database, user, password });

/** Starts a process for each service. `proxyUrl`: where functions send requests for the project's URL. */
export async function startTestMachine(project: MachineProject, proxyUrl: string): Promise<TestMachine> {
  const folder = mkdtempSync(path.join(tmpdir(), 'slipway-unit-'));
  const file = path.join(folder, 'project.json');
  const write = (text: string) => replaceFile(file, text);
  await write(machineProjectText(project));
  mkdirSync(path.join(folder, 'storage'));
  const socketOf = (service: ProjectService) => path.join(folder, `${service}.sock`);
  let written = '';
  const start = async (service: ProjectService) => {
    const child = fork(fileURLToPath(new URL('./main.js', import.meta.url)), {
      env: {
        SLIPWAY_MACHINE_SERVICE: service,
        SLIPWAY_MACHINE_PROJECT: file,
        SLIPWAY_LISTEN: socketOf(service),
        SLIPWAY_STORAGE_DIR: path.join(folder, 'storage'),
        SLIPWAY_FUNCTIONS_DIR: path.join(folder, 'functions'),
        SLIPWAY_FUNCTIONS_SOCKET: path.join(folder, 'control.sock'),
        SLIPWAY_DATAPLANE_URL: proxyUrl,
        SLIPWAY_RATE_LIMIT: '0',
      },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (chunk: string) => {
        written += chunk;
        keepForReport(chunk);
      });
    }
    const ready = await Promise.race([
      new Promise((resolve) => child.once('message', () => resolve(true))),
      new Promise((resolve) => child.once('exit', () => resolve(false))),
    ]);
    if (!ready) throw new Error(`${service} ended:\n${written}`);
    return [service, child] as const;
  };
  const processes = Object.fromEntries(await Promise.all(PROJECT_SERVICES.map(start))) as TestMachine['processes'];
  const revisionOf = async (service: ProjectService) => {
    const { body } = await askSocket(socketOf(service), { path: '/readyz' });
    return (JSON.parse(body) as { revision?: string }).revision;
  };
  return {
    folder,
    socketOf,
    processes,
    output: () => written,
    write,
    revisionOf,
    change: async (next) => {
      await write(machineProjectText(next));
      for (const service of PROJECT_SERVICES) {
        await until(async () => (await revisionOf(service)) === next.revision, `${service} to use ${next.revision}`);
      }
    },
    close: async () => {
      await Promise.all(
        Object.values(processes).map((child) => {
          const ended = new Promise((resolve) => child.once('exit', resolve));
          child.kill('SIGTERM');
          return ended;
        }),
      );
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Sends a request to a Unix socket. */
export function askSocket(
  socketPath: string,
  { method = 'GET', path, headers = {}, body }: { method?: string; path: string; headers?: object; body?: string },
): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, method, path, headers: { host: 'machine', ...headers }, agent: false });
    sent.once('error', reject).once('response', async (answer) => {
      let text = '';
      for await (const chunk of answer.setEncoding('utf8')) text += chunk;
      resolve({ status: answer.statusCode as number, body: text });
    });
    sent.end(body);
  });
}

/**
 * Stands for the web server of the machine: routes a request by its path to the socket of the service, and appends the
 * address of the connection to X-Forwarded-For.
 */
export function createFront(socketOf: (service: ProjectService) => string): Server {
  const toService = ({ url = '', method, headers, socket }: IncomingMessage): ClientRequest | undefined => {
    const name = /^(?:\/p\/[^/]+)?\/([a-z]+)\/v1(?:[/?]|$)/.exec(url)?.[1];
    const service = PROJECT_SERVICES.find((known) => known === name);
    if (service === undefined) return undefined;
    const before = headers['x-forwarded-for'];
    const address = before === undefined ? socket.remoteAddress : `${before}, ${socket.remoteAddress}`;
    return request({
      socketPath: socketOf(service),
      method,
      path: url,
      headers: { ...headers, 'x-forwarded-for': address },
      agent: false,
    });
  };
  const server = createServer((incoming, outgoing) => {
    const upstream = toService(incoming);
    if (upstream === undefined) return outgoing.writeHead(404).end();
    upstream.once('error', () => outgoing.destroy());
    upstream.once('response', (answer) => {
      outgoing.writeHead(answer.statusCode as number, answer.headers);
      answer.pipe(outgoing);
    });
    return incoming.pipe(upstream);
  });
  server.on('upgrade', (incoming, socket: Socket, head) => {
    const upstream = toService(incoming);
    socket.on('error', () => socket.destroy());
    upstream?.once('error', () => socket.destroy());
    upstream?.once('response', (answer) => socket.end(`HTTP/1.1 ${answer.statusCode} Refused\r\n\r\n`));
    upstream?.once('upgrade', (answer, other) => {
      const headers = answer.rawHeaders.map((text, at) => (at % 2 === 0 ? `${text}: ` : `${text}\r\n`)).join('');
      socket.write(`HTTP/1.1 101 Switching Protocols\r\n${headers}\r\n`);
      other.on('error', () => socket.destroy());
      other.pipe(socket).pipe(other);
      socket.once('close', () => other.destroy());
    });
    upstream?.end(head);
  });
  return server;
}

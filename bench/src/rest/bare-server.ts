/**
 * The upper bound for Node: node:http and stock `pg`, one Sync message for each request, and no checks except a
 * comparison of the token. It runs in a process of its own. In, over IPC: settings, later any number of pool sizes.
 * Out: the port.
 */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import pg from 'pg';
import type { Login } from './database.js';
import { OneSyncQuery, type Statement } from './one-sync-query.js';
import type { OperationName } from './operations.js';
import type { PlannedStatement, PlannedValue } from './recording.js';

export interface BareSettings {
  login: Login;
  accessToken: string;
  statements: Record<OperationName, PlannedStatement[]>;
}
export interface PoolSize {
  poolSize: number;
}

let login: Login;
let clients: pg.Client[] = [];
let idle: pg.Client[] = [];
/**
 * Waiting queries. There are at most as many as the load generator has connections, because each connection waits for
 * its response.
 */
const waiting: OneSyncQuery[] = [];
const tokens = new Set<string>();
let planned: BareSettings['statements'];

async function setPoolSize(size: number): Promise<void> {
  const former = clients;
  clients = await Promise.all(
    Array.from({ length: size }, async () => {
      const client = new pg.Client(login);
      await client.connect();
      return client;
    }),
  );
  idle = [...clients];
  await Promise.all(former.map((client) => client.end()));
}

function runOneSync(statements: Statement[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const query = new OneSyncQuery(statements, (error, value) => (error ? reject(error) : resolve(value)));
    const client = idle.pop();
    if (client) start(client, query);
    else waiting.push(query);
  });
}

function start(client: pg.Client, query: OneSyncQuery): void {
  query.onReady = () => {
    const next = waiting.shift();
    if (next) start(client, next);
    else idle.push(client);
  };
  client.query(query);
}

const readBody = async (request: IncomingMessage) => {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += chunk;
  return text;
};

interface ParsedRequest {
  name: OperationName;
  id: string;
  body: string;
}

async function read(request: IncomingMessage): Promise<ParsedRequest> {
  const url = request.url as string;
  if (request.method !== 'GET') {
    return { name: url.includes('on_conflict') ? 'upsert' : 'insert', id: '', body: await readBody(request) };
  }
  const id = /[?&]id=eq\.(\d+)/.exec(url)?.[1];
  if (id) return { name: 'select by key', id, body: '' };
  return { name: url.includes('/albums') ? 'to-many embed' : 'select 10 rows', id: '', body: '' };
}

function bound(value: PlannedValue, { id, body }: ParsedRequest): string | null {
  if (value.kind === 'constant') return value.text;
  return value.kind === 'id' ? id : body;
}

async function answer(request: IncomingMessage): Promise<{ status: number; body: string }> {
  if (!tokens.has(request.headers.authorization ?? '')) return { status: 401, body: '' };
  const parsed = await read(request);
  const statements = planned[parsed.name].map(({ text, values }, index) => ({
    name: `${parsed.name} ${index}`,
    text,
    values: values.map((value) => bound(value, parsed)),
  }));
  const body = await runOneSync(statements);
  return request.method === 'GET' ? { status: 200, body } : { status: 201, body: '' };
}

const server = createServer((request, response) => {
  answer(request).then(
    ({ status, body }) => {
      response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
      response.end(body);
    },
    (error) => {
      response.writeHead(500).end(String(error));
    },
  );
});

process.on('message', async (message: BareSettings | PoolSize) => {
  if ('poolSize' in message) {
    await setPoolSize(message.poolSize);
    process.send?.({ poolSize: message.poolSize });
    return;
  }
  login = message.login;
  planned = message.statements;
  tokens.add(`Bearer ${message.accessToken}`);
  await setPoolSize(4);
  server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
});
process.on('disconnect', () => process.exit());

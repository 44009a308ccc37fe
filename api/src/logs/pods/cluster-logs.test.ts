/**
 * Tests logs of pods for owners. A small server replaces the Kubernetes API, with pods, logs and the Secret of the
 * database; a cluster test reads real ones.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { KubeClient } from '@slipway/kubernetes';
import { anonymousAt } from '@slipway/kubernetes/testing.js';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Kubernetes } from '../../kubernetes/client.js';
import type { SeenProject } from '../../kubernetes/project-cache.js';
import { SecretsOfProjects } from '../../projects/project-secrets.js';
import type { ApiSettings } from '../../settings/settings.js';
import type { LogSelection } from '../log-selection.js';
import { PartialReads } from '../partial-reads.js';
import { ClusterLogs } from './cluster-logs.js';
import { MOST_OF_POD, newestLines, PodLogs } from './pod-logs.js';

const log = pino({ level: 'silent' });
const ALL: LogSelection = { level: 'info', since: 0, limit: 100 };
const project = (placement: 'deployments' | 'pooled' = 'deployments') =>
  ({ metadata: { name: 'shop', uid: 'u' }, spec: {}, status: { placement } }) as unknown as SeenProject;

/** Logs by namespace and pod. A number: the status of an error. */
let pods: Record<string, Record<string, string | number>>;
let database: Record<string, string> | undefined;
let requests: URL[];
let server: Server;
let client: KubeClient;
let logs: ClusterLogs;
const partly = new PartialReads(log);
let podLogs: PodLogs;

function answer({ url }: IncomingMessage, outgoing: ServerResponse): void {
  const asked = new URL(url ?? '/', 'http://kubernetes');
  requests.push(asked);
  const [, namespace = '', kind, name, part] =
    /^\/api\/v1\/namespaces\/([^/]+)\/(\w+)\/?([^/]*)\/?(.*)$/.exec(asked.pathname) ?? [];
  const json = (status: number, body: object) =>
    outgoing.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  if (kind === 'secrets') {
    if (!database) return void json(404, { reason: 'NotFound', message: 'no such Secret' });
    const data = Object.fromEntries(Object.entries(database).map(([key, value]) => [key, btoa(value)]));
    return void json(200, { metadata: { name, namespace }, data });
  }
  if (part !== 'log') {
    const items = Object.keys(pods[namespace] ?? {}).map((each) => ({ metadata: { name: each, namespace } }));
    return void json(200, { metadata: {}, items });
  }
  const text = pods[namespace]?.[name ?? ''] ?? 404;
  if (typeof text === 'number') return void json(text, { reason: 'Failed', message: 'no log' });
  outgoing.writeHead(200, { 'content-type': 'text/plain' }).end(text);
}

test.before(async () => {
  server = createServer(answer).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  client = await KubeClient.connect(anonymousAt((server.address() as AddressInfo).port));
  const kubernetes = new Kubernetes(client);
  podLogs = new PodLogs(kubernetes, partly);
  const settings = { encryptionKeys: { current: '1', keys: { 1: Buffer.alloc(32).toString('base64') } } } as unknown;
  logs = new ClusterLogs(podLogs, new SecretsOfProjects(kubernetes, settings as ApiSettings));
});
test.before.each(() => {
  requests = [];
  pods = {};
  database = { host: 'shared-eu.slipway-data.svc', 'database-id': 'abc' };
});
test.after(async () => {
  partly.onApplicationShutdown();
  await client.close();
  server.close();
});

const TIME = Date.parse('2026-01-05T10:00:00.000Z');
const auth = (second: number, more: object) =>
  JSON.stringify({ level: 30, time: TIME + second * 1_000, pid: 1, hostname: 'pod', ...more });
const forOwner = { for: 'owner' };

test('the log of auth has the lines of all its pods that are for the owner, by time', async () => {
  pods['p-shop'] = {
    'auth-1': [
      auth(1, { msg: 'auth serves', url: 'http://10.0.0.1' }),
      auth(4, { level: 50, ...forOwner, kind: 'magiclink', reason: 'refused', msg: 'mail not sent' }),
      'npm warn for:"owner"',
      '{"for":"owner"',
      '{"for":"owner","level":50,"time":"now","msg":"x"}',
      '{"for":"owner","level":50,"time":1e300,"msg":"x"}',
      '',
    ].join('\n'),
    'auth-2': `${auth(2, { level: 40, ...forOwner, key: 'SITE_URL', reason: 'no URL', msg: 'setting ignored' })}\n`,
    'auth-3': 400,
  };
  const mail = {
    time: '2026-01-05T10:00:04.000Z',
    level: 'error',
    message: 'mail not sent',
    kind: 'magiclink',
    reason: 'refused',
  };
  const setting = {
    time: '2026-01-05T10:00:02.000Z',
    level: 'warn',
    message: 'setting ignored',
    key: 'SITE_URL',
    reason: 'no URL',
  };
  assert.equal(await logs.ofAuth(project(), ALL), [setting, mail]);
  assert.equal(await logs.ofAuth(project(), { ...ALL, level: 'error' }), [mail]);
  assert.equal(await logs.ofAuth(project(), { ...ALL, limit: 1 }), [mail]);
  assert.equal(await logs.ofAuth(project(), { ...ALL, since: TIME + 3_000 }), [mail]);
  assert.is(requests[0]?.searchParams.get('labelSelector'), 'slipway.dev/part=auth');
  assert.is(requests.at(-1)?.searchParams.get('sinceTime'), '2026-01-05T10:00:03.000Z');
});

test('a project whose auth runs in the gateways has no pods to read', async () => {
  assert.equal(await logs.ofAuth(project('pooled'), ALL), []);
  assert.equal(requests, []);
});

test('a pod that can not be read hides no lines of the others; without any it is an error', async () => {
  const line = `${auth(1, { level: 50, ...forOwner, msg: 'mail not sent' })}\n`;
  pods['p-shop'] = { 'auth-1': 500, 'auth-2': line };
  assert.is((await logs.ofAuth(project(), ALL)).length, 1);
  pods['p-shop'] = { 'auth-1': 500 };
  const error = await logs.ofAuth(project(), ALL).catch((thrown: { kind: string }) => thrown);
  assert.is((error as { kind: string }).kind, 'unavailable');
  pods['p-shop'] = { 'auth-1': 404, 'auth-2': 400 };
  assert.equal(await logs.ofAuth(project(), ALL), []);
});

/** A record of the server's logging collector. Postgres escapes as JSON does. */
const record = (second: number, severity: string, message: string, more: object = {}) =>
  JSON.stringify({
    timestamp: `2026-01-05 10:00:0${second}.000 UTC`,
    user: 'authenticator.abc',
    dbname: 'p-abc',
    pid: 7,
    error_severity: severity,
    message,
    application_name: 'slipway',
    ...more,
  });
const messagesOf = async (query: Partial<LogSelection> = {}) =>
  (await logs.ofPostgres(project(), { ...ALL, ...query })).map(({ message }) => message);

test('the log of Postgres has the messages of the project’s database alone', async () => {
  const forged = record(9, 'ERROR', 'forged');
  pods['slipway-data'] = {
    'shared-eu-0': [
      record(1, 'ERROR', 'relation "a" does not exist', { state_code: '42P01', cursor_position: 22 }),
      record(1, 'ERROR', 'with more', { detail: 'canary', statement: 'canary', context: 'canary', hint: 'canary' }),
      record(2, 'ERROR', 'of "p-abc"', { dbname: 'p-neighbour' }),
      record(2, 'ERROR', 'x', { dbname: 'p-neighbour', application_name: '","dbname":"p-abc","x":"' }),
      record(2, 'FATAL', 'x', { dbname: 'p-neighbour', user: `x\n${forged}` }),
      record(3, 'WARNING', `first\n${forged}`, { state_code: '01000' }),
      record(4, 'ERROR', 'of the superuser', { user: 'slipway' }),
      record(5, 'ERROR', 'of a database whose name begins so', { dbname: 'p-abcd' }),
      record(6, 'LOG', "duration: 1.2 ms  statement: select 'canary'"),
      '2026-01-05 10:00:08.000 UTC [1] LOG:  checkpoint starting: "p-abc"',
      '"p-abc"',
      'null "p-abc"',
      '{"dbname":"p-abc"}',
      '{"dbname":"p-abc","logger":"postgres","record":null}',
    ].join('\n'),
  };
  const lines = await logs.ofPostgres(project(), ALL);
  assert.equal(
    lines.map(({ level, message, code, role }) => [level, message, code, role]),
    [
      ['error', 'relation "a" does not exist', '42P01', 'authenticator.abc'],
      ['error', 'with more', undefined, 'authenticator.abc'],
      ['warn', `first\n${forged}`, '01000', 'authenticator.abc'],
      ['info', 'duration: 1.2 ms  statement: [redacted]', undefined, 'authenticator.abc'],
    ],
  );
  assert.is(lines[0]?.time, '2026-01-05T10:00:01.000Z');
  assert.is(requests[1]?.searchParams.get('labelSelector'), 'slipway.dev/cluster=shared-eu');
});

test('no part of a line of a neighbour is a line of the project, wherever the line is cut', async () => {
  const of = (text: string) => record(2, 'WARNING', text, { dbname: 'p-neighbour', user: `a"\n${text}` });
  const whole = of(record(9, 'ERROR', 'forged'));
  const parts = Array.from(whole, (_, at) => whole.slice(at));
  const joined = Array.from(whole, (_, at) => `${whole.slice(0, at)}${record(1, 'ERROR', 'canary')}`);
  pods['slipway-data'] = { 'shared-eu-0': [...parts, ...joined.slice(1)].join('\n') };
  assert.equal(await messagesOf(), []);
});

test('the log of Postgres is selected by level, time and number, of all pods', async () => {
  pods['slipway-data'] = {
    'shared-eu-0': [record(1, 'ERROR', 'one'), record(3, 'LOG', 'three')].join('\n'),
    'shared-eu-1': [record(2, 'WARNING', 'two'), record(4, 'FATAL', 'four', { user: 'slipway' })].join('\n'),
  };
  assert.equal(await messagesOf(), ['one', 'two', 'three']);
  assert.equal(await messagesOf({ level: 'warn' }), ['one', 'two']);
  assert.equal(await messagesOf({ since: TIME + 2_000 }), ['two', 'three']);
  assert.equal(await messagesOf({ limit: 1 }), ['three']);
});

test('records of CloudNativePG are read too', async () => {
  database = { host: 'postgres.p-shop.svc', 'database-id': 'abc' };
  const cnpgRecord = (more: object) =>
    JSON.stringify({
      level: 'info',
      logger: 'postgres',
      msg: 'record',
      record: {
        log_time: '2026-01-05 10:00:01.000 UTC',
        user_name: 'postgres.abc',
        database_name: 'p-abc',
        error_severity: 'ERROR',
        sql_state_code: '42P01',
        message: 'no table',
        query: 'canary',
        ...more,
      },
    });
  pods['p-shop'] = {
    'postgres-1': [
      cnpgRecord({}),
      cnpgRecord({ database_name: 'p-other', message: 'p-abc' }),
      '{"logger":"pgaudit","record":{"database_name":"p-abc"}}',
      '{"p-abc"',
    ].join('\n'),
  };
  const time = '2026-01-05T10:00:01.000Z';
  const line = { time, level: 'error', message: 'no table', code: '42P01', role: 'postgres.abc' };
  assert.equal(await logs.ofPostgres(project(), ALL), [line]);
});

test('a database without a Secret has no lines, and one elsewhere an error', async () => {
  database = undefined;
  assert.equal(await logs.ofPostgres(project(), ALL), []);
  for (const host of ['postgres.p-neighbour.svc', 'coredns.kube-system.svc', 'db.example.com', '/run/postgres']) {
    database = { host, 'database-id': 'abc' };
    requests = [];
    const error = await logs.ofPostgres(project(), ALL).catch((thrown: { kind: string }) => thrown);
    assert.is((error as { kind: string }).kind, 'unavailable', host);
    assert.is(requests.length, 1, host);
  }
});

test('a project reads a log while reads of other projects fill the queue', async () => {
  pods['slipway-data'] = { 'shared-eu-0': 'line' };
  const selected = { namespace: 'slipway-data', labels: {}, container: 'postgres', lines: 1 };
  const others = Array.from({ length: 8 }, (_, project) =>
    Array.from({ length: 20 }, () => podLogs.read(`other-${project}`, selected, 0)),
  ).flat();
  const settled = Promise.allSettled(others);
  assert.equal(await podLogs.read('shop', selected, 0), ['line']);
  assert.ok((await settled).some(({ status }) => status === 'rejected'));
});

test('a long log is read from its newest bytes, in whole lines', async () => {
  async function* pieces() {
    for (let at = 0; at < 300; at += 1) yield Buffer.from(`${at} ${'x'.repeat(10_000)}\n`);
  }
  const lines = await newestLines(pieces(), MOST_OF_POD);
  assert.match(lines.at(-1) ?? '', /^299 /);
  assert.ok(lines.every((line) => line.length > 10_000));
  const bytes = lines.join('\n').length;
  assert.ok(bytes <= MOST_OF_POD + 10_010 && bytes > MOST_OF_POD - 20_020, String(bytes));
});

test.run();

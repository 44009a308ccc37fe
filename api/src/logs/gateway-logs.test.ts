/** Tests logs of projects on a cluster, where several gateways have the lines. Small servers replace the gateways. */
import type { IncomingMessage, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type InternalAnswer, startInternalServer } from '@slipway/program';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi, type TestApi } from '../testing.js';
import { follow } from './follow.testing.js';
import type { ProjectLogLine } from './logs.schema.js';

const TOKEN = 'a token that only the gateways and the API have';
const UNAVAILABLE = { status: 503, body: { message: 'stopping' } };

interface Gateway {
  server: Server;
  /** Requests of the API, as they arrived. */
  requests: string[];
  answer: InternalAnswer;
}

let gateways: Gateway[];
/** The headless Service's addresses. */
let addresses: () => { host: string; port: number }[];
let token: string;
let api: TestApi;
let person: Awaited<ReturnType<typeof register>>;
let projects = 0;

const line = (time: number, message: string): ProjectLogLine => ({
  time: new Date(time).toISOString(),
  level: 'warn',
  message,
});
const placeOf = ({ server }: Gateway) => ({ host: '127.0.0.1', port: (server.address() as AddressInfo).port });

async function startGateway(): Promise<Gateway> {
  const gateway: Omit<Gateway, 'server'> = { requests: [], answer: { status: 200, body: [] } };
  const answer = async ({ url }: IncomingMessage) => {
    gateway.requests.push(url ?? '');
    return gateway.answer;
  };
  const server = await startInternalServer(
    { listen: '127.0.0.1:0', token: () => TOKEN },
    { answer, onError: () => undefined },
  );
  return Object.assign(gateway, { server });
}

test.before(async () => {
  gateways = [await startGateway(), await startGateway()];
  api = await startTestApi({ projectLogs: { gateways: async () => addresses(), token: () => token } });
  person = await register(api);
});
test.before.each(() => {
  token = TOKEN;
  addresses = () => gateways.map(placeOf);
  for (const gateway of gateways) Object.assign(gateway, { requests: [], answer: { status: 200, body: [] } });
});
test.after(async () => {
  for (const { server } of gateways) server.close();
  await api?.close();
});

async function makeProject() {
  projects += 1;
  const ref = `gateway-logs-${projects}`;
  await api.operator.apply(ref, { owner: person.email });
  const { body } = await until(
    () => api.call('GET', `/projects?name=${ref}`, { token: person.token }),
    ({ body: found }) => found.length === 1,
  );
  const { id } = body[0] as { id: number };
  return { ref, path: `/projects/${id}/logs/auth` };
}

const read = async (path: string) => {
  const { status, headers, body } = await api.call('GET', path, { token: person.token });
  return {
    status,
    retryAfter: headers['retry-after'],
    messages: body.items?.map((item: ProjectLogLine) => item.message),
  };
};

test('the lines of all gateways are merged by time, and the limit is that of the whole', async () => {
  const { ref, path } = await makeProject();
  const [one, two] = gateways as [Gateway, Gateway];
  one.answer.body = [line(1_000, 'first'), line(4_000, 'fourth')];
  two.answer.body = [line(2_000, 'second'), line(3_000, 'third')];
  assert.equal((await read(path)).messages, ['first', 'second', 'third', 'fourth']);
  assert.equal((await read(`${path}?limit=2&level=warn`)).messages, ['third', 'fourth']);
  for (const { requests } of gateways) {
    assert.equal(requests, [`/${ref}/auth?level=info&since=0&limit=100`, `/${ref}/auth?level=warn&since=0&limit=2`]);
  }
});

test('a gateway that does not know the project yet has no lines', async () => {
  const { path } = await makeProject();
  const [one, two] = gateways as [Gateway, Gateway];
  one.answer = { status: 404, body: { message: 'no such project' } };
  two.answer.body = [line(1_000, 'known here')];
  assert.equal((await read(path)).messages, ['known here']);
});

test('a gateway that is unavailable hides no lines of the others', async () => {
  const { path } = await makeProject();
  const [one, two] = gateways as [Gateway, Gateway];
  one.answer.body = [line(1_000, 'still here')];
  two.answer = UNAVAILABLE;
  assert.equal((await read(path)).messages, ['still here']);
  addresses = () => [placeOf(one), { host: '127.0.0.1', port: 1 }];
  assert.equal((await read(path)).messages, ['still here']);
});

test('logs are a 503 when no gateway responds, none has an address, or the token is another', async () => {
  const { path } = await makeProject();
  const unavailable = { status: 503, retryAfter: '5', messages: undefined };
  for (const gateway of gateways) gateway.answer = UNAVAILABLE;
  assert.equal(await read(path), unavailable);
  for (const gateway of gateways) gateway.answer = { status: 200, body: [] };
  assert.equal((await read(path)).messages, []);
  token = `${TOKEN}x`;
  assert.equal(await read(path), unavailable);
  token = TOKEN;
  addresses = () => [];
  assert.equal(await read(path), unavailable);
  addresses = () => {
    throw new Error('getaddrinfo ENOTFOUND');
  };
  assert.equal(await read(path), unavailable);
});

test('a reader that follows gets a line which a slower gateway shows later, before newer ones', async () => {
  const { path } = await makeProject();
  const [one, two] = gateways as [Gateway, Gateway];
  const now = Date.now();
  one.answer.body = [line(now, 'newer')];
  const { listen: socketPath } = api.settings;
  const following = follow(path, (text) => text.includes('"newer"'), { socketPath, token: person.token });
  await until(() => one.requests.length > 1, 'the first look');
  two.answer.body = [line(now - 100, 'older')];
  const { text } = await following;
  assert.equal(
    [...text.matchAll(/"message":"(\w+)"/g)].map(([, message]) => message),
    ['older', 'newer'],
  );
});

test.run();

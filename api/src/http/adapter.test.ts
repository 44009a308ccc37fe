import { once } from 'node:events';
import { connect } from 'node:net';
import { until } from '@slipway/testing';
import type { FastifyInstance } from 'fastify';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { fastifyAdapter } from './adapter.js';
import { RequestLimits } from './request-limits.js';

test('each request is one log line, also if its client disconnects before the response', async () => {
  const lines: { path: string; status: number }[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const fastify = fastifyAdapter(
    log,
    false,
    new RequestLimits({ perMinute: 0, sparesLoopback: true, sparesLocalAccounts: true }),
  ).getInstance() as unknown as FastifyInstance;
  const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  fastify.get('/at-once', async () => 'here');
  fastify.get('/slow', async () => {
    reach();
    await released;
    return 'too late';
  });
  const url = await fastify.listen({ port: 0, host: '127.0.0.1' });
  try {
    await (await fetch(`${url}/at-once`)).text();
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.write('GET /slow HTTP/1.1\r\nhost: x\r\n\r\n');
    await reached;
    socket.destroy();
    await once(socket, 'close');
    await until(
      async () => lines,
      ({ length }) => length === 2,
    );
    release();
  } finally {
    await fastify.close();
  }
  assert.equal(
    lines.map(({ path, status }) => [path, status]),
    [
      ['/at-once', 200],
      ['/slow', 499],
    ],
  );
});

const MIB = 1024 * 1024;
const BODIES: Record<string, string> = {
  'as many texts as are allowed': `[${'"x",'.repeat(4_990)}0]`,
  'more values': `[${'1,'.repeat(5_000)}1]`,
  'deep arrays': `${'['.repeat(MIB / 2)}${']'.repeat(MIB / 2)}`,
  'objects of as many shapes': `[${Array.from({ length: 70_000 }, (_, i) => `{"k${i}":1}`).join(',')}]`,
};

test('a body that would take long to decode is rejected before it is decoded', async () => {
  const limits = new RequestLimits({ perMinute: 0, sparesLoopback: true, sparesLocalAccounts: true });
  const fastify = fastifyAdapter(pino({ level: 'silent' }), false, limits).getInstance() as unknown as FastifyInstance;
  fastify.post('/', async ({ body }) => (body as unknown[]).length);
  const outcomes: Record<string, [number, string]> = {};
  for (const [name, payload] of Object.entries(BODIES)) {
    const headers = { 'content-type': 'application/json' };
    const { statusCode, body } = await fastify.inject({ method: 'POST', url: '/', headers, payload });
    outcomes[name] = [statusCode, statusCode === 200 ? body : (JSON.parse(body).detail ?? JSON.parse(body).message)];
  }
  await fastify.close();
  const values = "The body can't be decoded: the JSON has more than 5000 values and names.";
  assert.equal(outcomes, {
    'as many texts as are allowed': [200, '4991'],
    'more values': [413, values],
    'deep arrays': [413, "The body can't be decoded: the JSON has arrays or objects more than 100 levels deep."],
    'objects of as many shapes': [413, values],
  });
});

test.run();

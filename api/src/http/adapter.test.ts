import { once } from 'node:events';
import { connect } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { until } from '../testing.js';
import { fastifyAdapter } from './adapter.js';
import { RequestLimits } from './request-limits.js';

test('each request is one line of the log, also one whose caller closed the connection before the answer', async () => {
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

test.run();

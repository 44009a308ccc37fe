import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { freePort } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startMetrics } from './metrics.js';

test('the metrics count requests by service and status class, and have an address of their own', async () => {
  const at = `127.0.0.1:${await freePort()}`;
  const { metrics, stopMetrics } = await startMetrics(at);
  const answers: Record<string, (incoming: IncomingMessage, outgoing: ServerResponse) => void> = {
    '/rest': (_, outgoing) => outgoing.writeHead(404).end(),
    '/auth': (_, outgoing) => outgoing.end('{}'),
    '/mute': (incoming) => incoming.socket.emit('seen'),
  };
  const server = createServer((incoming, outgoing) => {
    metrics?.watch(outgoing, incoming.url === '/rest' ? 'rest' : 'auth');
    answers[incoming.url as string]?.(incoming, outgoing);
  });
  const seen = new Promise<void>((resolve) => server.on('connection', (socket) => socket.once('seen', resolve)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await fetch(`http://127.0.0.1:${port}/rest`);
  await fetch(`http://127.0.0.1:${port}/rest`);
  await fetch(`http://127.0.0.1:${port}/auth`).then((answer) => answer.text());
  const caller = connect(port, '127.0.0.1', () => caller.write('GET /mute HTTP/1.1\r\nHost: x\r\n\r\n'));
  await seen;
  caller.destroy();
  const read = async () => (await fetch(`http://${at}/metrics`)).text();
  let text = await read();
  while (!text.includes('status="aborted"')) text = await read();
  assert.match(text, /^slipway_gateway_requests_total\{service="rest",status="4xx"\} 2$/m);
  assert.match(text, /^slipway_gateway_requests_total\{service="auth",status="2xx"\} 1$/m);
  assert.match(text, /^slipway_gateway_requests_total\{service="auth",status="aborted"\} 1$/m);
  assert.match(text, /^slipway_gateway_request_duration_seconds_count\{service="rest"\} 2$/m);
  assert.is((await fetch(`http://${at}/`)).status, 404);
  stopMetrics();
  server.closeAllConnections();
  server.close();
});

test.run();

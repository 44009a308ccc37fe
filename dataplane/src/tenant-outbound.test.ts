/** Tests the connections to hosts in a project's settings on one machine, with real servers on loopback. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { tenantOutbound } from './tenant-outbound.js';

async function startServer() {
  const server = createServer((_, outgoing) => outgoing.end('reached'));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { port: (server.address() as AddressInfo).port, close: () => server.close() };
}

/** Returns the response, or the reason of the refusal. */
const answerOf = (outbound: ReturnType<typeof tenantOutbound>, url: string): Promise<string> =>
  outbound.fetch(url).then(
    (response) => response.text(),
    ({ cause }: Error) => (cause as Error).message,
  );

test('the hosts of a project reach the public URL by its name, and nothing else on this machine', async () => {
  const [platform, neighbour] = [await startServer(), await startServer()];
  const installation = { publicUrl: `http://localhost:${platform.port}` };
  const outbound = tenantOutbound({ installation });
  try {
    for (const host of ['localhost', 'LOCALHOST', '127.0.0.1'])
      assert.is(await answerOf(outbound, `http://${host}:${platform.port}/`), 'reached', host);
    for (const host of ['localhost', '127.0.0.1', '0.0.0.0', '[::ffff:127.0.0.1]'])
      assert.match(await answerOf(outbound, `http://${host}:${neighbour.port}/`), 'SLIPWAY_ALLOWED_NETWORKS', host);
    const connected = await outbound.connect('127.0.0.1', neighbour.port, 1_000).catch((error) => error.code);
    assert.is(connected, 'EADDRESSREFUSED');
  } finally {
    await outbound.close();
    for (const each of [platform, neighbour]) each.close();
  }
});

test('an allowed network is reached, except at the ports of the platform', async () => {
  const [database, neighbour] = [await startServer(), await startServer()];
  const reach = { allowed: ['127.0.0.0/8'], ownPorts: [database.port] };
  const outbound = tenantOutbound({ installation: { publicUrl: 'https://slipway.example.com' }, reach });
  try {
    assert.is(await answerOf(outbound, `http://localhost:${neighbour.port}/`), 'reached');
    assert.match(await answerOf(outbound, `http://localhost:${database.port}/`), 'is not public');
  } finally {
    await outbound.close();
    for (const each of [database, neighbour]) each.close();
  }
});

test.run();

/** Tests which pauses the operator detects, with real servers in place of the data planes. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hashedRef } from '@slipway/installation';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { silentLog } from '../testing.js';
import { PauseWatch } from './pause-watch.js';

const REASON = 'until 2026-11-25T02:10:00.000Z, rest request';
const servers: Server[] = [];

test.after(() => {
  for (const server of servers) server.close();
});

async function startDataplane(respond: () => { status: number; body: string }): Promise<string> {
  const server = createServer((request, response) => {
    assert.is(request.url, '/readyz');
    const { status, body } = respond();
    response.writeHead(status).end(body);
  });
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('a pause in one of several data planes is reported once at its start and once at its end', async () => {
  let paused: Record<string, string> = {};
  const origins = [
    await startDataplane(() => ({ status: 200, body: JSON.stringify({ ok: true, paused }) })),
    await startDataplane(() => ({ status: 200, body: '{"ok":true,"paused":{}}' })),
    await startDataplane(() => ({ status: 503, body: '{"message":"starting"}' })),
    await startDataplane(() => ({ status: 200, body: 'no JSON' })),
    await startDataplane(() => ({ status: 200, body: '{}' })),
    'http://127.0.0.1:1',
  ];
  const changed: string[] = [];
  const watch = new PauseWatch({
    origins: async () => origins,
    refs: () => ['bad', 'neighbour'],
    onChange: (ref) => changed.push(ref),
    log: silentLog,
  });
  await watch.look();
  assert.equal([watch.find('bad'), changed], [undefined, []]);

  paused = { [hashedRef('bad')]: REASON, [hashedRef('unknown')]: REASON };
  await watch.look();
  await watch.look();
  assert.equal([watch.find('bad'), watch.find('neighbour'), changed], [REASON, undefined, ['bad']]);

  paused = {};
  await watch.look();
  await watch.look();
  assert.equal([watch.find('bad'), changed], [undefined, ['bad', 'bad']]);
  await watch.close();
});

test.run();

/** Tests responses of the platform at its own address, which another program may serve too. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isSetupRequired } from './health.js';

async function isSetupRequiredAt(respond: RequestListener): Promise<boolean> {
  const server = createServer(respond).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    return await isSetupRequired(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test('the response says whether the first administrator must register', async () => {
  assert.is(await isSetupRequiredAt((_, response) => void response.end('{"setup_required":true}')), true);
});

test('a response of more than 64 KiB is rejected', async () => {
  const text = JSON.stringify({ setup_required: true, more: 'x'.repeat(64 * 1024) });
  const error = await isSetupRequiredAt((_, response) => void response.end(text)).catch((cause: Error) => cause);
  assert.instance(error, Error);
  assert.match((error as Error).message, /larger than 65536 bytes/);
});

test.run();

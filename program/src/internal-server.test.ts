/** Tests internal servers by requests at a port. */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startInternalServer } from './internal-server.js';

test('a request without the token gets 401 before its body ends, and its connection is closed', async () => {
  let answered = 0;
  const server = await startInternalServer(
    { listen: '127.0.0.1:0', token: () => 'the token of this test' },
    {
      answer: async () => {
        answered += 1;
        return { status: 200 };
      },
      onError: assert.unreachable,
    },
  );
  try {
    const { port } = server.address() as AddressInfo;
    const outgoing = request({ host: '127.0.0.1', port, method: 'POST' }).on('error', () => undefined);
    const closed = once(outgoing, 'close');
    outgoing.write('the beginning of an endless body');
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
    assert.equal([response.statusCode, response.headers.connection], [401, 'close']);
    response.resume();
    await closed;
    assert.is(answered, 0);
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

test.run();

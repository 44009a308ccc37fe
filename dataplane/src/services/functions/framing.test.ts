/** Tests requests to a function whose Connection header lists framing headers. They are sent as bytes on a socket. */
import { connect } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestFunctions, type TestFunctions } from './testing.js';

let functions: TestFunctions;
test.before(async () => {
  functions = await startTestFunctions();
});
test.after(() => functions.close());

function ask(port: string, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let received = '';
    const socket = connect(Number(port), '127.0.0.1', () => socket.write(text));
    socket.on('data', (chunk) => {
      received += chunk;
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(received));
  });
}

test('a body that contains a request remains a body for a function, whatever the Connection header names', async () => {
  await functions.deploy(
    'evil',
    'count',
    `let count = 0;
     Deno.serve(async (request) => new Response(\`request \${++count}, \${(await request.text()).length} bytes.\`));`,
  );
  const { port, pathname } = new URL(`${functions.url('evil')}/count`);
  const inner = `POST ${pathname} HTTP/1.1\r\nHost: x\r\n\r\n`;
  const next = `GET ${pathname} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`;
  let count = 0;
  for (const method of ['GET', 'DELETE', 'OPTIONS', 'POST']) {
    for (const framing of [
      `Connection: content-length\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`,
      `Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n${inner.length.toString(16)}\r\n` +
        `${inner}\r\n0\r\n\r\n`,
    ]) {
      const received = await ask(port, `${method} ${pathname} HTTP/1.1\r\nHost: localhost\r\n${framing}${next}`);
      // Deno's fetch handler gets no body for a GET.
      const length = method === 'GET' ? 0 : inner.length;
      const context = `${method} ${JSON.stringify(framing)} ${received}`;
      const answers = [...received.matchAll(/request (\d+), (\d+) bytes/g)];
      const [counts, lengths] = [1, 2].map((group) => answers.map((answer) => Number(answer[group])));
      assert.equal(lengths, [length, 0], context);
      // The responses are in order; the order in which the function sees the requests is undefined.
      assert.is(Math.max(...(counts as number[])), (count += 2), context);
    }
  }
});

test.run();

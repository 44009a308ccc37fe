/** Tests bodies that arrive in pieces, slowly, or without end, on real connections. */
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Problem } from './problem.js';
import { BodyChunks } from './raw-body.js';

interface Served {
  /** Handler of the body, which each test sets. */
  handle(body: BodyChunks): Promise<unknown>;
}

const served: Served = { handle: async () => undefined };
const test = suite<{ port: number; close(): void }>('raw body');

test.before(async (context) => {
  const server = createServer(async (incoming, response) => {
    const answer = await served.handle(new BodyChunks(incoming)).catch((error: unknown) => error);
    const { status, extras } = answer instanceof Problem ? answer : { status: 200, extras: { headers: {} } };
    response.writeHead(status, extras.headers).end(String(answer instanceof Problem ? answer.message : answer));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  context.port = (server.address() as AddressInfo).port;
  context.close = () => server.close();
});
test.after(({ close }) => close());

/** Opens a request without a length. */
function open(port: number) {
  const outgoing = request({ port, host: '127.0.0.1', method: 'POST', headers: { 'transfer-encoding': 'chunked' } });
  const closed = new Promise((resolve) => outgoing.once('close', resolve));
  outgoing.on('error', () => undefined);
  const answer = once(outgoing, 'response').then(async ([response]) => {
    const pieces: Buffer[] = [];
    for await (const piece of response) pieces.push(piece as Buffer);
    return { status: response.statusCode, text: Buffer.concat(pieces).toString() };
  });
  // A test that ends the connection awaits no response.
  answer.catch(() => undefined);
  return { outgoing, answer, closed };
}

test('a body is complete once its end was received, and a later read continues where the first stopped', async ({
  port,
}) => {
  const whole: boolean[] = [];
  served.handle = async (body) => {
    whole.push(await body.readUpTo(4));
    return body.read(100);
  };
  const { outgoing, answer } = open(port);
  outgoing.write('first ');
  await until(() => whole.length === 1, 'the first piece is read');
  outgoing.end('second');
  assert.equal(await answer, { status: 200, text: 'first second' });
  assert.equal(whole, [false]);

  served.handle = async (body) => `${await body.readUpTo(4)} ${await body.read(4)}`;
  const short = open(port);
  short.outgoing.end('four');
  assert.equal(await short.answer, { status: 200, text: 'true four' });
});

test('a body that is too long is rejected before its end', async ({ port }) => {
  served.handle = (body) => body.read(1_000);
  const { outgoing, answer } = open(port);
  const sending = setInterval(() => outgoing.write('x'.repeat(600)), 5);
  const { status } = await answer.finally(() => clearInterval(sending));
  assert.is(status, 413);
  outgoing.destroy();
});

test('a body that is sent too slowly is rejected, and its connection closes', async ({ port }) => {
  served.handle = (body) => body.read(1_000, 50);
  const { outgoing, answer, closed } = open(port);
  const sending = setInterval(() => outgoing.write('x'), 5);
  const { status, text } = await answer;
  assert.is(status, 408);
  assert.match(text, /not sent within 0.05 seconds/);
  await closed;
  clearInterval(sending);
});

test('a disconnected caller ends the read', async ({ port }) => {
  let isReading = false;
  let reason: unknown;
  served.handle = (body) => {
    isReading = true;
    return body.read(1_000).catch((error: unknown) => {
      reason = error;
    });
  };
  const { outgoing, closed } = open(port);
  outgoing.write('x');
  await until(() => isReading, 'the reading begins');
  outgoing.destroy();
  await closed;
  await until(() => reason !== undefined, 'the reading ends');
  assert.is((reason as Problem).kind, 'caller_gone');
});

test.run();

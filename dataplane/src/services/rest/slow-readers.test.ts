/** Tests that large responses to slow clients use the memory budgets until they are sent or the client disconnects. */
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { HeldAnswer } from '../../sql/answer-memory.js';
import { type RestHarness, startRestHarness } from './testing.js';

const ANSWER = 30_000_000;
/** Number of large responses: more than the budget of one project allows, and within the budget of the process. */
const READERS = 5;
let rest: RestHarness;
const readers: Socket[] = [];

test.before(async () => {
  rest = await startRestHarness(`
    create function public.large() returns text language sql stable as $$ select repeat('x', ${ANSWER}) $$;
    create function public.small() returns text language sql stable as $$ select 'small' $$;`);
});
test.after(async () => {
  for (const reader of readers) reader.destroy();
  await rest?.close();
});

/** Sends a request, and reads only the head of the response. */
async function readSlowly(): Promise<void> {
  const { hostname, port } = new URL(rest.url);
  const reader = connect(Number(port), hostname);
  readers.push(reader);
  reader.write('GET /rpc/large HTTP/1.1\r\nhost: x\r\n\r\n');
  const [head] = (await new Promise<Buffer>((resolve) => reader.once('data', resolve))).toString('latin1').split('\r');
  reader.pause();
  assert.ok(head === 'HTTP/1.1 200 OK' || head?.startsWith('HTTP/1.1 503'), head);
}

const statusOf = async (name: string) => {
  const response = await rest.fetch(`/rpc/${name}`);
  await response.arrayBuffer();
  return response.status;
};

test('a project with many unread large responses gets no more large responses, but still gets small ones', async () => {
  assert.is(await statusOf('large'), 200);
  for (let n = 0; n < READERS; n++) await readSlowly();
  assert.is(await statusOf('large'), 503);
  assert.is(await statusOf('small'), 200);
});

test('a disconnect of slow clients frees the budget and the memory', async () => {
  for (const reader of readers) reader.destroy();
  for (let n = 0; n < 100 && (await statusOf('large')) !== 200; n++) await sleep(100);
  assert.is(await statusOf('large'), 200);
  const all = new HeldAnswer({ ...rest.postgres.admin(), account: 'somebody' });
  assert.ok(all.grow(128 * 1024 * 1024));
  all.end();
});

test.run();

/** Calls that take too long are cut off, and nothing beside them is. */
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { until } from '../testing/until.js';
import { isAlive, startTestFunctions, type TestFunctions } from './testing.js';

const LATE_MS = 6_000;
/** For a machine that stands still for a while. */
const MARGIN_MS = 2_500;
let functions: TestFunctions;
let url: string;
test.before(async () => {
  functions = await startTestFunctions({ firstByteMilliseconds: LATE_MS, wallMilliseconds: 2 * LATE_MS });
  const code = `const pid = String(Deno.pid);
    const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    const drops = new ReadableStream({ async pull(to) { await pause(100); to.enqueue(new TextEncoder().encode('.')); } });
    Deno.serve(async (request) => {
      const { searchParams } = new URL(request.url);
      if (searchParams.has('drops')) return new Response(drops);
      await pause(Number(searchParams.get('ms')));
      return new Response(pid);
    });`;
  assert.equal(await functions.deploy('one', 'slow', code), { state: 'ready' });
  url = `${functions.url('one')}/slow`;
});
test.after(() => functions.close());

const ask = async (ms: number) => {
  const response = await fetch(`${url}?ms=${ms}`);
  return { status: response.status, text: await response.text() };
};

/**
 * A call beside the one that is late answers; the next one gets another isolate, and the first ends with its last call.
 */
async function isAlone(late: () => Promise<void>): Promise<void> {
  const pid = Number((await ask(0)).text);
  const [, beside] = await Promise.all([
    late(),
    pause(LATE_MS - MARGIN_MS).then(() => ask(LATE_MS / 2)),
    pause(LATE_MS + MARGIN_MS).then(async () => assert.is.not(Number((await ask(0)).text), pid)),
  ]);
  assert.equal(beside, { status: 200, text: String(pid) });
  await until(() => !isAlive(pid), 'the end of the isolate');
  assert.match(functions.logs('one', 'slow').at(-1)?.message as string, /took too long/);
}

test('a call whose answer does not come in time is cut off alone', () =>
  isAlone(async () => {
    const { status, text } = await ask(60_000);
    assert.is(status, 504);
    assert.match(text, /IDLE_TIMEOUT/);
  }));

test('so is one whose caller does not send its body, large or small', async () => {
  for (const length of [10, 1_000_000]) {
    await isAlone(async () => {
      const { port, pathname } = new URL(url);
      const caller = connect(Number(port), '127.0.0.1');
      let heard = '';
      caller.on('data', (chunk) => {
        heard += chunk;
      });
      const closed = new Promise((resolve) => caller.once('close', resolve));
      caller.write(`POST ${pathname}?ms=60000 HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${length}\r\n\r\nx`);
      await closed;
      assert.match(heard, /^HTTP\/1\.1 504 /);
    });
  }
});

test('an answer without end is broken off, and what is under way beside it is not', async () => {
  const pid = Number((await ask(0)).text);
  const endless = fetch(`${url}?drops`).then((response) => response.text());
  const beside = pause(2 * LATE_MS - MARGIN_MS).then(() => ask(LATE_MS / 2));
  assert.match(String(await endless.catch((error) => error)), /terminated/);
  assert.equal(await beside, { status: 200, text: String(pid) });
  assert.is.not(Number((await ask(0)).text), pid);
});

test.run();

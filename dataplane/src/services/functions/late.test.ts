/** Tests the timeouts of calls: a call that takes too long is cut off, and no other call is. */
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { isAlive, until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestFunctions, type TestFunctions } from './testing.js';

const LATE_MS = 6_000;
/** Milliseconds that a timeout may be late, because the machine may be suspended for a while. */
const MARGIN_MS = 2_500;
let functions: TestFunctions;
/** Functions of the tests. Each test has its own function, so that all tests can wait at the same time. */
const FUNCTIONS = ['unanswered', 'small', 'large', 'endless'] as const;
type Name = (typeof FUNCTIONS)[number];
const urlOf = (name: Name) => `${functions.url('one')}/${name}`;
test.before(async () => {
  functions = await startTestFunctions({ firstByteMilliseconds: LATE_MS, wallMilliseconds: 2 * LATE_MS });
  const code = `const pid = String(Deno.pid);
    const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    const drop = new TextEncoder().encode('.');
    const drops = new ReadableStream({ async pull(to) { await pause(100); to.enqueue(drop); } });
    Deno.serve(async (request) => {
      const { searchParams } = new URL(request.url);
      if (searchParams.has('drops')) return new Response(drops);
      await pause(Number(searchParams.get('ms')));
      return new Response(pid);
    });`;
  for (const name of FUNCTIONS) assert.equal(await functions.deploy('one', name, code), { state: 'ready' });
});
test.after(() => functions.close());

const ask = async (name: Name, ms: number) => {
  const response = await fetch(`${urlOf(name)}?ms=${ms}`);
  return { status: response.status, text: await response.text() };
};

/**
 * Checks that a concurrent call completes, the next call gets another isolate, and the first isolate ends with its last
 * call.
 */
async function isAlone(name: Name, late: () => Promise<void>): Promise<void> {
  const pid = Number((await ask(name, 0)).text);
  const [, beside] = await Promise.all([
    late(),
    pause(LATE_MS - MARGIN_MS).then(() => ask(name, LATE_MS / 2)),
    pause(LATE_MS + MARGIN_MS).then(async () => assert.is.not(Number((await ask(name, 0)).text), pid)),
  ]);
  assert.equal(beside, { status: 200, text: String(pid) });
  await until(() => !isAlive(pid), 'the end of the isolate');
  assert.match(functions.logs('one', name).at(-1)?.message as string, /took too long/);
}

const unanswered = () =>
  isAlone('unanswered', async () => {
    const { status, text } = await ask('unanswered', 60_000);
    assert.is(status, 504);
    assert.match(text, /IDLE_TIMEOUT/);
  });

const unsent = (name: 'small' | 'large', length: number) =>
  isAlone(name, async () => {
    const { port, pathname } = new URL(urlOf(name));
    const caller = connect(Number(port), '127.0.0.1');
    let received = '';
    caller.on('data', (chunk) => {
      received += chunk;
    });
    const closed = new Promise((resolve) => caller.once('close', resolve));
    caller.write(`POST ${pathname}?ms=60000 HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${length}\r\n\r\nx`);
    await closed;
    assert.match(received, /^HTTP\/1\.1 504 /);
  });

async function endless(): Promise<void> {
  const pid = Number((await ask('endless', 0)).text);
  const response = fetch(`${urlOf('endless')}?drops`).then((response) => response.text());
  const beside = pause(2 * LATE_MS - MARGIN_MS).then(() => ask('endless', LATE_MS / 2));
  assert.match(String(await response.catch((error) => error)), /terminated/);
  assert.equal(await beside, { status: 200, text: String(pid) });
  assert.is.not(Number((await ask('endless', 0)).text), pid);
}

/** Calls of all tests. They are started together, because each mostly waits. */
let all: Record<Name, Promise<void>>;
test.before(() => {
  all = { unanswered: unanswered(), small: unsent('small', 10), large: unsent('large', 1_000_000), endless: endless() };
  for (const each of Object.values(all)) each.catch(() => undefined);
});

test('a call without a response in time is cut off, and no other call is', () => all.unanswered);

test('a call whose caller does not send its body, large or small, is cut off', async () => {
  await Promise.all([all.small, all.large]);
});

test('an endless response is cut off, and concurrent calls are not', () => all.endless);

test.run();

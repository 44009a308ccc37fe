/**
 * Tests functions in a pod of a cluster: they are deployed at a port with a token, and each project has a host name.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startFunctionsControl } from './control.js';
import { removeFunctions, startTestFunctions, type TestFunctions } from './testing.js';

let token = 'a token that only the operator and the API have';
const log = pino({ level: 'silent' });
const folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
const options = {
  projectUrl: (ref: string) => `http://${ref}.slipway.test`,
  blockedAddresses: ['8.8.8.0/24', '2001:db8::/32', '2606:4700::1111/128'],
};
let functions: TestFunctions;
let control: Server;
let url: string;

async function begin(home: string) {
  functions = await startTestFunctions({ togetherMegabytes: 300, residentMegabytes: 2_000 }, home, options);
  control = await startFunctionsControl({ listen: '127.0.0.1:0', token: () => token }, functions.service, log);
  url = `http://127.0.0.1:${(control.address() as AddressInfo).port}`;
}

async function end() {
  control.close();
  control.closeAllConnections();
  await functions.close();
}

test.before(() => begin(path.join(folder, 'one')));
test.after(async () => {
  await end();
  for (const name of ['one', 'two']) removeFunctions(path.join(folder, name));
  rmSync(folder, { recursive: true });
});

const ask = (method: string, place: string, body?: object, authorization: string | undefined = `Bearer ${token}`) =>
  fetch(url + place, {
    method,
    headers: authorization === '' ? {} : { authorization },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
const source = (code: string, version = 1) => ({ version, code, verifyJwt: false });
const disk = async () => ((await (await ask('GET', '/')).json()) as { disk: string }).disk;
const HELLO = source('Deno.serve(() => new Response("hello"));');

test('a request to the control port without the right token can’t read or change anything', async () => {
  for (const authorization of ['', 'Bearer ', `Bearer ${token}x`, `Bearer ${token.slice(1)}`, token]) {
    for (const [method, place, body] of [
      ['PUT', '/one/hello', HELLO],
      ['DELETE', '/one/hello'],
      ['GET', '/one/hello/logs'],
      ['GET', '/'],
      ['GET', '/functions'],
    ] as const) {
      assert.is((await ask(method, place, body, authorization)).status, 401);
    }
  }
  assert.is((await fetch(`${functions.url('one')}/hello`)).status, 404);
});

test('a replaced token of the control port is required from then on, without a restart', async () => {
  const before = token;
  token = 'another token, as somebody made the Secret again';
  assert.is((await ask('GET', '/', undefined, `Bearer ${before}`)).status, 401);
  assert.is((await ask('GET', '/')).status, 200);
});

test('a request with the token can deploy a function, read its log and remove it', async () => {
  assert.equal(await (await ask('PUT', '/one/hello', HELLO)).json(), { state: 'ready' });
  assert.is(await (await fetch(`${functions.url('one')}/hello`)).text(), 'hello');
  const lines = (await (await ask('GET', '/one/hello/logs')).json()) as { message: string }[];
  assert.ok(lines.some(({ message }) => message === 'version 1 is deployed'));
  assert.is((await ask('DELETE', '/one/hello')).status, 200);
  assert.is((await fetch(`${functions.url('one')}/hello`)).status, 404);
});

test('the health endpoint reports that functions run', async () => {
  assert.is((await fetch(`${functions.url('one')}/_internal/health`)).status, 200);
});

test('a function sees its project’s host name, and reaches the project there through the gateway', async () => {
  const code = `Deno.serve(async ({ url }) => {
    const told = await fetch('http://one.slipway.test/rest/v1/todos?select=*');
    return Response.json({ url, told: await told.text() });
  });`;
  assert.equal(await (await ask('PUT', '/one/home', source(code))).json(), { state: 'ready' });
  const result = await (await fetch(`${functions.url('one')}/home/deeper`)).json();
  assert.equal(result, {
    url: 'http://one.slipway.test/home/deeper',
    told: 'the platform: /p/one/rest/v1/todos?select=*',
  });
});

test('a function cannot reach addresses that the site settings block', async () => {
  const code = `Deno.serve(async (request) => {
    const { host } = await request.json();
    try {
      await Deno.connect({ hostname: host, port: 53 });
      return new Response('connected');
    } catch (error) {
      return new Response(error.name);
    }
  });`;
  assert.equal(await (await ask('PUT', '/one/blocked', source(code))).json(), { state: 'ready' });
  for (const host of ['8.8.8.8', '2606:4700::1111', '10.96.0.1']) {
    const answer = await fetch(`${functions.url('one')}/blocked`, { method: 'POST', body: JSON.stringify({ host }) });
    assert.is(await answer.text(), 'NotCapable', host);
  }
});

test('only the largest isolate ends when all functions together use too much memory', async () => {
  const small = 'let n = 0; Deno.serve(() => new Response(String(++n)));';
  const large = `Deno.serve(async () => {
    const kept = [];
    for (let n = 0; n < 400; n++) kept.push(new Uint8Array(1024 * 1024).fill(1));
    await new Promise((resolve) => setTimeout(resolve, 20_000));
    return new Response(String(kept.length));
  });`;
  assert.equal(await (await ask('PUT', '/one/small', source(small))).json(), { state: 'ready' });
  assert.equal(await (await ask('PUT', '/two/large', source(large))).json(), { state: 'ready' });
  assert.is(await (await fetch(`${functions.url('one')}/small`)).text(), '1');
  assert.is((await fetch(`${functions.url('two')}/large`)).status, 546);
  assert.is(await (await fetch(`${functions.url('one')}/small`)).text(), '2');
  assert.ok(functions.logs('two', 'large').some(({ message }) => /all functions here used too much/.test(message)));
});

test('a disk keeps its id and functions over a restart, and another disk has another id and no functions', async () => {
  const name = await disk();
  await end();
  await begin(path.join(folder, 'one'));
  assert.is(await disk(), name);
  const stored = (await (await ask('GET', '/functions')).json()) as { ref: string; name: string }[];
  assert.equal(stored.map(({ ref, name }) => `${ref}/${name}`).sort(), [
    'one/blocked',
    'one/home',
    'one/small',
    'two/large',
  ]);
  await end();
  await begin(path.join(folder, 'two'));
  assert.is.not(await disk(), name);
  assert.equal(await (await ask('GET', '/functions')).json(), []);
});

test.run();

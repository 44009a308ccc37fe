import { globSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { until } from '@slipway/testing';
import { createClient, FunctionsHttpError, FunctionsRelayError } from '@supabase/supabase-js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestFunctions, type TestFunctions } from './testing.js';

let functions: TestFunctions;

test.before(async () => {
  functions = await startTestFunctions();
});
test.after(() => functions?.close());

const client = (ref: string) =>
  createClient(functions.url(ref).replace('/functions/v1', ''), 'a-key', {
    auth: { persistSession: false, autoRefreshToken: false },
  }).functions;

const deployed = async (ref: string, name: string, code: string, options?: { verifyJwt?: boolean }) => {
  const outcome = await functions.deploy(ref, name, code, options);
  assert.equal(outcome, { state: 'ready' });
};

const ECHO = `Deno.serve(async (request: Request) => {
  const { method, url } = request;
  const { pathname, search } = new URL(url);
  const headers = Object.fromEntries(request.headers);
  return Response.json({ method, url, pathname, search, headers, body: await request.text() });
});`;

test('a function gets every method, with its name first in the path, the query, headers and body', async () => {
  await deployed('one', 'echo', ECHO);
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const) {
    const body = ['GET', 'OPTIONS'].includes(method) ? null : 'what was sent';
    const response = await fetch(`${functions.url('one')}/echo/deeper?x=1`, {
      method,
      body,
      headers: { 'x-own': 'yes' },
    });
    const seen = (await response.json()) as Record<'method' | 'url' | 'pathname' | 'search' | 'body', string> & {
      headers: Record<string, string>;
    };
    assert.is(seen.method, method);
    assert.is(seen.pathname, '/echo/deeper');
    assert.is(seen.search, '?x=1');
    assert.is(seen.headers['x-own'], 'yes');
    assert.is(seen.body, body ?? '');
    assert.match(seen.url, /^http:\/\/localhost:\d+\/echo\/deeper\?x=1$/);
  }
});

test('supabase-js sends text, JSON, bytes and forms, and parses each response by its type', async () => {
  await deployed(
    'one',
    'mirror',
    `Deno.serve(async (request) => {
      const type = request.headers.get('content-type') ?? '';
      return new Response(await request.arrayBuffer(), { headers: { 'content-type': type, 'x-type': type } });
    });`,
  );
  const invoke = async (body: never) => (await client('one').invoke('mirror', { body })).data;
  assert.is(await invoke('plain text' as never), 'plain text');
  assert.equal(await invoke({ a: [1, 'two'] } as never), { a: [1, 'two'] });
  const bytes = (await invoke(new Uint8Array([0, 255, 7]).buffer as never)) as Blob;
  assert.equal([...new Uint8Array(await bytes.arrayBuffer())], [0, 255, 7]);
  const form = new FormData();
  form.set('field', 'value');
  form.set('file', new Blob(['in a file']), 'a.txt');
  const answered = (await invoke(form as never)) as FormData;
  assert.is(answered.get('field'), 'value');
  assert.is(await (answered.get('file') as File).text(), 'in a file');
  const { data } = await client('one').invoke('echo', { method: 'PATCH', region: 'us-east-1' as never, body: {} });
  assert.is(data.method, 'PATCH');
  assert.is(data.headers['x-region'], 'us-east-1');
});

test('a function’s error becomes a FunctionsHttpError, and a platform error a FunctionsRelayError', async () => {
  await deployed('one', 'teapot', `Deno.serve(() => new Response('short and stout', { status: 418 }));`);
  const { error } = await client('one').invoke('teapot');
  assert.instance(error, FunctionsHttpError);
  assert.is(error.context.status, 418);
  assert.is(await error.context.text(), 'short and stout');
  await deployed('one', 'dying', `import process from 'node:process'; Deno.serve(() => { Deno.exit(3); });`);
  const died = await client('one').invoke('dying');
  assert.instance(died.error, FunctionsRelayError);
  assert.is((await died.error.context.json()).code, 'WORKER_ERROR');
  const missing = await client('one').invoke('nothing-of-that-name');
  assert.instance(missing.error, FunctionsHttpError);
  assert.is(missing.error.context.status, 404);
});

test('bodies stream both ways: each chunk arrives before the next is sent', async () => {
  await deployed(
    'one',
    'pipe',
    `Deno.serve((request) => new Response(request.body?.pipeThrough(new TransformStream({
      transform(chunk, out) { out.enqueue(new TextEncoder().encode(new TextDecoder().decode(chunk).toUpperCase())); },
    }))));`,
  );
  const { readable, writable } = new TransformStream<Uint8Array>();
  const sending = writable.getWriter();
  const answering = fetch(`${functions.url('one')}/pipe`, {
    method: 'POST',
    body: readable,
    duplex: 'half',
  } as RequestInit);
  void sending.write(new TextEncoder().encode('one'));
  const reading = ((await answering).body as ReadableStream<Uint8Array>).getReader();
  assert.is(Buffer.from((await reading.read()).value as Uint8Array).toString(), 'ONE');
  void sending.write(new TextEncoder().encode('two'));
  assert.is(Buffer.from((await reading.read()).value as Uint8Array).toString(), 'TWO');
  void sending.close();
  assert.is((await reading.read()).done, true);
});

test('a function with a default export of fetch is served like a function that calls Deno.serve', async () => {
  await deployed(
    'one',
    'exporting',
    `export default { fetch: (request: Request) => new Response(new URL(request.url).pathname) };`,
  );
  assert.is(await (await fetch(`${functions.url('one')}/exporting`)).text(), '/exporting');
});

test('functions get the owner’s variables and the project’s URL and keys, and nothing of the platform', async () => {
  functions.setEnvironment('env', { OWN: 'mine', SUPABASE_URL: 'http://evil.example', LD_PRELOAD: '/tmp/x.so' });
  await deployed('env', 'env', `Deno.serve(() => Response.json(Deno.env.toObject()));`);
  const { LD_PRELOAD: _, ...seen } = (await (await fetch(`${functions.url('env')}/env`)).json()) as Record<
    string,
    string
  >;
  assert.equal(seen, {
    OWN: 'mine',
    SUPABASE_URL: functions.url('env').replace('/functions/v1', ''),
    SUPABASE_ANON_KEY: 'anon-key-of-env',
    SUPABASE_SERVICE_ROLE_KEY: 'service-role-key-of-env',
  });
});

test('a changed secret reaches the next call without a deploy', async () => {
  await deployed('env', 'secret', `Deno.serve(() => new Response(Deno.env.get('SECRET') ?? 'none'));`);
  for (const value of ['first', 'second']) {
    functions.setEnvironment('env', { SECRET: value });
    assert.is(await (await fetch(`${functions.url('env')}/secret`)).text(), value);
  }
});

test('a secret that changes during a start reaches the waiting call', async () => {
  const slowly = 'await new Promise((resolve) => setTimeout(resolve, 700));';
  await deployed('env', 'slow-start', `${slowly} Deno.serve(() => new Response(Deno.env.get('SECRET') ?? 'none'));`);
  functions.setEnvironment('env', { SECRET: 'before' });
  const answer = fetch(`${functions.url('env')}/slow-start`);
  await new Promise((resolve) => setTimeout(resolve, 300));
  functions.setEnvironment('env', { SECRET: 'after' });
  assert.is(await (await answer).text(), 'after');
  const deploying = functions.deploy(
    'env',
    'slow-start',
    `${slowly} Deno.serve(() => new Response(Deno.env.get('SECRET')));`,
  );
  await new Promise((resolve) => setTimeout(resolve, 300));
  functions.setEnvironment('env', { SECRET: 'last' });
  assert.equal(await deploying, { state: 'ready' });
  assert.is(await (await fetch(`${functions.url('env')}/slow-start`)).text(), 'last');
});

test('a function reaches the public URL, although it is an address of this machine', async () => {
  await deployed(
    'one',
    'calling',
    `Deno.serve(async () => new Response(await (await fetch(Deno.env.get('SUPABASE_URL') + '/x')).text()));`,
  );
  assert.is(await (await fetch(`${functions.url('one')}/calling`)).text(), 'the platform: /p/one/x');
});

test('packages of npm are fetched when a function is deployed', async () => {
  await deployed(
    'one',
    'padded',
    `import leftPad from 'npm:left-pad@1.3.0';\nDeno.serve(() => new Response(leftPad('7', 3, '0')));`,
  );
  assert.is(await (await fetch(`${functions.url('one')}/padded`)).text(), '007');
});

const BROKEN: [string, string, RegExp, number, number][] = [
  [
    'a syntax error',
    'const a = 1;\nDeno.serve(() => {\n  return new Response("x" +);\n});',
    /Expression expected/,
    3,
    28,
  ],
  ['a type that is never closed', 'type A = { b: string\nDeno.serve(() => new Response());', /./, 2, 5],
  ['TypeScript that can’t be stripped', 'namespace A { export const b = ; }', /Expression expected/, 1, 32],
  [
    'a package that is not there',
    '\nimport a from "npm:this-is-no-package-of-anyone-0";',
    /no-package-of-anyone/,
    2,
    15,
  ],
  ['a file of the machine', 'import a from "/etc/passwd" with { type: "text" };', /is a file/, 1, 15],
  ['a file beside it', 'import "./other.ts";', /is a file/, 1, 8],
  ['a dynamic import of a file', 'await import("file:///etc/passwd");', /is a file/, 1, 14],
  ['a host of the platform', 'import "https://127.0.0.1:4001/x.ts";', /from no such host/, 1, 8],
  ['an error while it starts', 'const a = 1;\nthrow new Error("no " + a);', /does not start: .*no 1/, 2, 7],
  ['no server', 'export const a = 1;', /serves nothing/, 0, 0],
];
for (const [what, code, message, line, column] of BROKEN) {
  test(`a deploy with ${what} is rejected with line and column, and the former version still serves`, async () => {
    await deployed('broken', 'kept', `Deno.serve(() => new Response('the one before'));`);
    const outcome = await functions.deploy('broken', 'kept', code);
    assert.is(outcome.state, 'refused');
    const [problem] = outcome.state === 'refused' ? outcome.problems : [];
    assert.match(problem?.message ?? '', message);
    assert.not.match(problem?.message ?? '', /root:|slipway-test/);
    if (line > 0) assert.equal([problem?.line, problem?.column], [line, column], problem?.message);
    assert.is(await (await fetch(`${functions.url('broken')}/kept`)).text(), 'the one before');
  });
}

test('a deploy swaps versions under load without one failed request', async () => {
  await deployed('swap', 'load', `Deno.serve(() => new Response('0'));`);
  const failures: string[] = [];
  const seen = new Set<string>();
  let done = false;
  const callers = Array.from({ length: 4 }, async () => {
    while (!done) {
      const response = await fetch(`${functions.url('swap')}/load`, { method: 'POST', body: 'x' });
      const text = await response.text();
      seen.add(text);
      if (response.status !== 200) failures.push(`${response.status} ${text}`);
    }
  });
  for (let version = 1; version <= 4; version++) {
    await deployed('swap', 'load', `Deno.serve(() => new Response('${version}'));`);
    await until(() => seen.has(String(version)), `version ${version}`);
  }
  done = true;
  await Promise.all(callers);
  assert.equal(failures, []);
});

test('a request in flight completes on its version of the function when that version is replaced', async () => {
  await deployed('swap', 'slow', `Deno.serve(async (request) => new Response('old ' + await request.text()));`);
  const { readable, writable } = new TransformStream<Uint8Array>();
  const slow = fetch(`${functions.url('swap')}/slow`, {
    method: 'POST',
    body: readable,
    duplex: 'half',
  } as RequestInit);
  const writer = writable.getWriter();
  await writer.write(new TextEncoder().encode('but '));
  await deployed('swap', 'slow', `Deno.serve(() => new Response('new'));`);
  assert.is(await (await fetch(`${functions.url('swap')}/slow`)).text(), 'new');
  await writer.write(new TextEncoder().encode('whole'));
  await writer.close();
  assert.is(await (await slow).text(), 'old but whole');
});

test('a call whose isolate is unreachable is repeated completely on another isolate', async () => {
  await deployed('one', 'lost', 'Deno.serve(async (request) => new Response(await request.text()));');
  const sockets = readFileSync(path.join(functions.home, 'functions', 'sockets'), 'utf8');
  for (const socket of globSync(path.join(sockets, '*/own/s'))) rmSync(socket);
  const body = 'x'.repeat(1_000_000);
  const response = await fetch(`${functions.url('one')}/lost`, { method: 'POST', body });
  assert.is(response.status, 200);
  assert.is(await response.text(), body);
});

test('a response before the end of its request’s body arrives, and the connection is used again', async () => {
  await deployed('two', 'hasty', 'Deno.serve((request) => new Response(request.method));');
  const { port, pathname } = new URL(`${functions.url('two')}/hasty`);
  const caller = connect(Number(port), '127.0.0.1');
  let received = '';
  caller.on('data', (chunk) => {
    received += chunk;
  });
  const head = (method: string, length: number) =>
    `${method} ${pathname} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${length}\r\n\r\n`;
  const body = 'x'.repeat(1_000_000);
  caller.write(head('POST', 2 * body.length) + body);
  await until(() => received.endsWith('POST'), 'the answer');
  caller.write(body + head('PUT', 0));
  await until(() => received.endsWith('PUT'), 'the next answer');
  caller.destroy();
});

test('a call is not made if its caller disconnected before the isolate started', async () => {
  await deployed('two', 'count', 'let calls = 0; Deno.serve(() => new Response(String(++calls)));');
  functions.setEnvironment('two', { ITS: 'next isolate' });
  const { port, pathname } = new URL(`${functions.url('two')}/count`);
  const caller = connect(Number(port), '127.0.0.1');
  await new Promise((sent) => caller.write(`GET ${pathname} HTTP/1.1\r\nHost: localhost\r\n\r\n`, sent));
  caller.destroy();
  assert.is(await (await fetch(`${functions.url('two')}/count`)).text(), '1');
});

test('the log has a function’s output, with standard error as errors, up to its limit', async () => {
  await deployed(
    'one',
    'chatty',
    `Deno.serve(() => { console.log('to the log'); console.error('to the errors'); return new Response(); });`,
  );
  await fetch(`${functions.url('one')}/chatty`);
  const lines = await until(() => {
    const lines = functions.logs('one', 'chatty').filter(({ level }) => level !== 'system');
    return lines.length === 2 ? lines : undefined;
  }, 'both lines');
  assert.equal(lines.map(({ level, message }) => [level, message]).sort(), [
    ['error', 'to the errors'],
    ['info', 'to the log'],
  ]);
});

test('a call without a token is rejected by a function with verify_jwt, and accepted by one without it', async () => {
  const code = `Deno.serve(() => new Response('in'));`;
  await deployed('one', 'guarded', code, { verifyJwt: true });
  const { status } = await fetch(`${functions.url('one')}/guarded`);
  assert.is(status, 401);
  const headers = { authorization: 'Bearer good' };
  assert.is(await (await fetch(`${functions.url('one')}/guarded`, { headers })).text(), 'in');
  assert.is((await fetch(`${functions.url('one')}/guarded`, { method: 'OPTIONS' })).status, 200);
});

test('a call of a removed function gets 404, and other functions of the project are served', async () => {
  await deployed('gone', 'a', ECHO);
  await deployed('gone', 'b', ECHO);
  await functions.service.deployer.remove('gone', 'a');
  assert.is((await fetch(`${functions.url('gone')}/a`)).status, 404);
  assert.is((await fetch(`${functions.url('gone')}/b`)).status, 200);
});

test.run();

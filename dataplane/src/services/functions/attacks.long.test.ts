/**
 * Tests attacks by functions and on functions. Each attack is rejected or ended, and other functions stay available.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readOwnAddresses } from './own-addresses.js';
import { startTestFunctions, type TestFunctions } from './testing.js';

const CANARY = 'a-secret-of-the-neighbour';
let functions: TestFunctions;
/** Fake server on this machine, in place of the Kubernetes API, Postgres and metadata services. */
let platform: Server;
let platformPort: number;
let reached = 0;
let privateFolder: string;

test.before(async () => {
  process.env.PLATFORM_SECRET = CANARY;
  privateFolder = mkdtempSync(path.join(tmpdir(), 'slipway-private-'));
  writeFileSync(path.join(privateFolder, 'secret.json'), JSON.stringify({ secret: CANARY }));
  writeFileSync(path.join(privateFolder, 'secret.js'), `export default '${CANARY}'`);
  platform = createServer((_, outgoing) => {
    reached += 1;
    outgoing.end(CANARY);
  });
  await new Promise<void>((resolve) => platform.listen(0, '0.0.0.0', resolve));
  platformPort = (platform.address() as AddressInfo).port;
  functions = await startTestFunctions({
    heapMegabytes: 128,
    residentMegabytes: 320,
    cpuMillisecondsPerRequest: 500,
    cpuMillisecondsAtMost: 1_500,
    firstByteMilliseconds: 20_000,
    logLines: 100,
    logLineBytes: 1_000,
    concurrency: 20,
  });
  functions.setEnvironment('neighbour', { NEIGHBOUR_SECRET: CANARY });
  await functions.deploy(
    'neighbour',
    'victim',
    `Deno.serve(() => new Response('alive ' + Deno.env.get('NEIGHBOUR_SECRET')));`,
  );
});
test.after(async () => {
  delete process.env.PLATFORM_SECRET;
  await functions?.close();
  platform?.closeAllConnections();
  platform?.close();
  rmSync(privateFolder, { recursive: true, force: true });
});

const neighbourAnswers = async () => {
  const response = await fetch(`${functions.url('neighbour')}/victim`);
  assert.equal([response.status, await response.text()], [200, `alive ${CANARY}`]);
};

/** Returns the value of an expression inside another project's function, or the name of the error that it throws. */
async function attempt(expression: string): Promise<string> {
  const code = `import net from 'node:net'; import fs from 'node:fs'; import child from 'node:child_process';
    import { createRequire } from 'node:module'; import dns from 'node:dns/promises';
    Deno.serve(async (request) => {
      const input = await request.json();
      try { return new Response('got ' + JSON.stringify(await (${expression}))); }
      catch (error) { return new Response('refused ' + error.name + ' ' + error.message + ' ' + (error.cause ?? '')); }
    });`;
  const outcome = await functions.deploy('evil', 'evil', code);
  assert.equal(outcome, { state: 'ready' }, expression);
  const sockets = readFileSync(path.join(functions.home, 'functions', 'sockets'), 'utf8');
  const input = { port: platformPort, privateFolder, sockets, parent: process.pid, home: functions.home };
  const response = await fetch(`${functions.url('evil')}/evil`, { method: 'POST', body: JSON.stringify(input) });
  return response.text();
}

const node = (url: string) =>
  `new Promise((done, no) => net.connect(input.port, '${url}').on('connect', () => done('connected')).on('error', no))`;
const REFUSED: [string, string][] = [
  ['read /etc/passwd', `Deno.readTextFile('/etc/passwd')`],
  ['read /etc/passwd by Node', `fs.promises.readFile('/etc/passwd', 'utf8')`],
  ['read it through /proc', `Deno.readTextFile('/proc/self/root/etc/passwd')`],
  ['read it through its own folder', `Deno.readTextFile(new URL('../../../../../../etc/passwd', import.meta.url))`],
  ['read the environment of the parent', `Deno.readTextFile('/proc/' + input.parent + '/environ')`],
  ['read its own first environment', `Deno.readTextFile('/proc/self/environ')`],
  ['list the functions of others', `Array.fromAsync(Deno.readDir(input.home + '/functions/deployed'))`],
  ['import a file as JSON', `import(input.privateFolder + '/secret.json', { with: { type: 'json' } })`],
  ['import a file as text', `import(input.privateFolder + '/secret.json', { with: { type: 'text' } })`],
  ['import a file as code', `import('file://' + input.privateFolder + '/secret.js')`],
  [
    'import it from a module in a data URL',
    `import('data:text/javascript,' + ` +
      `encodeURIComponent('export { default } from "file://' + input.privateFolder + '/secret.js"'))`,
  ],
  [
    'import it from a blob',
    `import(URL.createObjectURL(new Blob(` +
      `['export { default } from "file://' + input.privateFolder + '/secret.js"'], { type: 'text/javascript' })))`,
  ],
  ['require a file', `createRequire(import.meta.url)(input.privateFolder + '/secret.json')`],
  ['fetch a file', `fetch('file://' + input.privateFolder + '/secret.json').then((r) => r.text())`],
  [
    'import it in a worker',
    'new Promise((done, no) => { ' +
      `const w = new Worker('file://' + input.privateFolder + '/secret.js', { type: 'module' }); ` +
      'w.onerror = (e) => { e.preventDefault(); no(new Error(e.message)); }; w.onmessage = (e) => done(e.data); ' +
      `setTimeout(() => no(new Error('silent')), 3000); })`,
  ],
  ['write a file', `Deno.writeTextFile('/tmp/slipway-evil', 'x')`],
  ['change its own source', `Deno.writeTextFile(new URL(import.meta.url), 'x')`],
  ['link to a file', `Deno.symlink('/etc/passwd', input.sockets + '/link')`],
  ['reach the metadata address', `fetch('http://169.254.169.254/latest/meta-data/').then((r) => r.text())`],
  ['reach a port of this machine', `fetch('http://127.0.0.1:' + input.port + '/').then((r) => r.text())`],
  ['reach it by name', `fetch('http://localhost:' + input.port + '/').then((r) => r.text())`],
  ['reach it by another of its addresses', `fetch('http://127.9.9.9:' + input.port + '/').then((r) => r.text())`],
  ['reach it by the address of all', `fetch('http://0.0.0.0:' + input.port + '/').then((r) => r.text())`],
  ['reach it by a number', `fetch('http://2130706433:' + input.port + '/').then((r) => r.text())`],
  ['reach it by octal digits', `fetch('http://0177.0.0.1:' + input.port + '/').then((r) => r.text())`],
  ['reach it by IPv6', `fetch('http://[::1]:' + input.port + '/').then((r) => r.text())`],
  ['reach it by a mapped IPv6 address', `fetch('http://[::ffff:127.0.0.1]:' + input.port + '/').then((r) => r.text())`],
  ['reach it by a socket of Deno', `Deno.connect({ hostname: '127.0.0.1', port: input.port }).then(() => 'connected')`],
  ['reach it by a socket of Node', node('127.0.0.1')],
  ['reach it by a name and a socket of Node', node('localhost')],
  [
    'reach it by a WebSocket',
    `new Promise((done, no) => { const s = new WebSocket('ws://127.0.0.1:' + input.port + '/'); ` +
      `s.onopen = () => done('connected'); s.onerror = (e) => no(new Error(e.message)); })`,
  ],
  [
    'reach it by UDP',
    `(async () => (await Deno.listenDatagram({ hostname: '0.0.0.0', port: 0, transport: 'udp' }))` +
      `.send(new Uint8Array(1), { hostname: '127.0.0.1', port: input.port, transport: 'udp' }))()`,
  ],
  ['reach private networks', `fetch('http://10.0.0.1/').then((r) => r.text())`],
  ['reach other private networks', `fetch('http://192.168.0.1/').then((r) => r.text())`],
  ['reach the addresses of a cluster', `fetch('http://10.96.0.1/').then((r) => r.text())`],
  ['listen at a port', `(() => { Deno.listen({ port: 0 }); return 'listening'; })()`],
  [
    'connect to the socket of the container engine',
    `Deno.connect({ transport: 'unix', path: '/var/run/docker.sock' }).then(() => 'connected')`,
  ],
  [
    'call a neighbour’s isolate',
    `Deno.connect({ transport: 'unix', path: input.sockets + '/1/s' }).then(() => 'connected')`,
  ],
  ['list the sockets', `Array.fromAsync(Deno.readDir(input.sockets))`],
  ['import a module of this machine', `import('http://127.0.0.1:' + input.port + '/x.ts')`],
  ['run a program', `new Deno.Command('id').output()`],
  [
    'run a program by Node',
    `new Promise((done, no) => child.exec('id', (error, out) => error ? no(error) : done(out)))`,
  ],
  ['fork', `new Promise((done, no) => child.fork('/dev/null').on('spawn', () => done('forked')).on('error', no))`],
  ['load a library', `Deno.dlopen('libc.so.6', { getpid: { parameters: [], result: 'i32' } }).symbols.getpid()`],
  ['end the parent', `(() => { Deno.kill(input.parent, 'SIGKILL'); return 'killed'; })()`],
  ['end the parent by Node', `(() => { process.kill(input.parent, 'SIGKILL'); return 'killed'; })()`],
  [
    'ask for more rights',
    `(async () => { const { state } = await Deno.permissions.request({ name: 'read' }); if (state !== 'granted') ` +
      'throw new Error(state); return state; })()',
  ],
  ['know the machine', `Deno.hostname() + Deno.osRelease()`],
  [
    'find a canary in its environment',
    '(() => { const all = JSON.stringify(Deno.env.toObject()); if (!/a-secret-of/.test(all)) ' +
      `throw new Error('nothing'); return all; })()`,
  ],
];
for (const [what, expression] of REFUSED) {
  test(`a function cannot ${what}`, async () => {
    const answer = await attempt(expression);
    assert.match(answer, /^refused /);
    assert.not.match(answer, new RegExp(`${CANARY}|root:x:`));
    assert.is(reached, 0);
  });
}

/** The sockets of all isolates that may exist by then. */
const SOCKETS = `['/gateway', ...Array.from({ length: 300 }, (_, n) => '/' + n.toString(36))
  .flatMap((folder) => [folder + '/g', folder + '/s', folder + '/own/s'])]
  .map((name) => input.sockets + name).filter((path) => path !== server.addr.path)`;
const ON_SOCKETS: [string, string][] = [
  ['removes', 'Deno.removeSync(path)'],
  [
    'replaces',
    `Deno.removeSync(path); const fake = Deno.listen({ transport: 'unix', path });
     const response = 'HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\ntaken';
     (async () => { for await (const taken of fake) {
       await taken.read(new Uint8Array(10_000)); taken.write(new TextEncoder().encode(response)); } })()`,
  ],
];
for (const [verb, attack] of ON_SOCKETS) {
  test(`a function that ${verb} every socket that it can reach does not affect other functions`, async () => {
    const code = `Deno.serve(async () =>
      new Response(await (await fetch(Deno.env.get('SUPABASE_URL') + '/x')).text()));`;
    const calls = async (name: string) => {
      const response = await fetch(`${functions.url('neighbour')}/${name}`);
      assert.equal([response.status, await response.text()], [200, 'the platform: /p/neighbour/x']);
    };
    await functions.deploy('neighbour', 'calling', code);
    await calls('calling');
    const tried = `const server = Deno.serve(async (request) => {
      const input = await request.json();
      const paths = ${SOCKETS};
      return Response.json(paths.filter((path) => { try { ${attack}; return true; } catch { return false; } }));
    });`;
    assert.equal(await functions.deploy('evil', 'socket', tried), { state: 'ready' });
    const sockets = readFileSync(path.join(functions.home, 'functions', 'sockets'), 'utf8');
    const response = await fetch(`${functions.url('evil')}/socket`, {
      method: 'POST',
      body: JSON.stringify({ sockets }),
    });
    const touched = (await response.json()) as string[];
    assert.ok(touched.length <= 1, touched.join());
    await calls('calling');
    await functions.deploy('neighbour', 'later', code);
    await calls('later');
    await neighbourAnswers();
  });
}

const HEAD = 'HTTP/1.1 200 OK\r\n';
const FIVE = 'Content-Length: 5\r\n\r\ntaken';
/**
 * Raw responses of a function, and the status that the caller gets, or undefined if the response is cut off. The
 * function sends `later` without a request.
 */
const RAW: [what: string, answer: string, given: number | undefined, later?: string][] = [
  ['an answer', HEAD + FIVE, 200],
  ...['042', '000', '101', '600', '999'].map((status): [string, string, number] => [
    `status ${status}`,
    `HTTP/1.1 ${status} x\r\n${FIVE}`,
    500,
  ]),
  ['another protocol', `HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: x\r\n${FIVE}`, 500],
  ['another answer behind it', HEAD + FIVE + HEAD + FIVE, 200],
  ['another answer later', HEAD + FIVE, 200, HEAD + FIVE],
  ['anything later', HEAD + FIVE, 200, 'x'],
  ['a word before it', `HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n${HEAD}${FIVE}`, 200],
  ['words without end before it', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(50) + HEAD + FIVE, 200],
  ['a length that is too long', `${HEAD}Content-Length: 50\r\n\r\ntaken`, undefined],
  ['two lengths', `${HEAD}Content-Length: 6\r\n${FIVE}`, 500],
  ['a length below zero', `${HEAD}Content-Length: -5\r\n\r\ntaken`, 500],
  ['a length and pieces', `${HEAD}Transfer-Encoding: chunked\r\n${FIVE}`, 500],
  ['pieces that break off', `${HEAD}Transfer-Encoding: chunked\r\n\r\n5\r\ntak`, undefined],
  ['a piece of no size', `${HEAD}Transfer-Encoding: chunked\r\n\r\nx\r\ntaken\r\n0\r\n\r\n`, undefined],
  ['nothing, with a body', `HTTP/1.1 204 x\r\n${FIVE}`, 204],
  ['unchanged, with a body', `HTTP/1.1 304 x\r\n${FIVE}`, 304],
  ['a header without end', `${HEAD}x: ${'x'.repeat(100_000)}`, 500],
  ['headers without end', HEAD + 'x: x\r\n'.repeat(20_000) + FIVE, 500],
  ['a header of a language', `${HEAD}__proto__: x\r\nconstructor: x\r\n${FIVE}`, 200],
  ['a control character in a header', `${HEAD}x: \x01\r\n${FIVE}`, 500],
  ['connections twice', `${HEAD}Connection: x\r\nConnection: close\r\nx: x\r\n${FIVE}`, 200],
  ['no word of HTTP', 'taken', 500],
  ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 500],
  ['nothing', '', 500],
];

test('a function that sends arbitrary raw bytes in place of its server affects no other request', async () => {
  // A worker has the same permissions as its function, also while the function serves.
  const worker = `onmessage = async ({ data: path }) => {
    Deno.removeSync(path);
    const fake = Deno.listen({ transport: 'unix', path });
    postMessage('listens');
    const encoder = new TextEncoder();
    const answers = ${JSON.stringify(RAW.map(([, answer, , later]) => [answer, later]))};
    const open = new Set();
    const answer = async (taken) => {
      const buffer = new Uint8Array(10_000);
      const asked = new TextDecoder().decode(buffer.subarray(0, await taken.read(buffer)));
      const write = async (text) => {
        for (let bytes = encoder.encode(text); bytes.length > 0; ) bytes = bytes.subarray(await taken.write(bytes)); };
      if (/[?]open/.test(asked)) return write('HTTP/1.1 200 OK\\r\\nConnection: close\\r\\n\\r\\n' + open.size);
      open.add(taken);
      const [first, later] = answers[/answer=(\\d+)/.exec(asked)[1]];
      await write(first);
      if (!later) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
      await write(later);
    };
    for await (const taken of fake) {
      answer(taken).catch(() => {}).then(() => { taken.close(); open.delete(taken); });
    }
  };`;
  await functions.deploy(
    'evil',
    'raw',
    `const source = ${JSON.stringify(`data:text/javascript,${encodeURIComponent(worker)}`)};
     const worker = new Worker(source, { type: 'module' });
     const server = Deno.serve(async () => {
       const listens = new Promise((resolve) => { worker.onmessage = resolve; });
       worker.postMessage(server.addr.path);
       await listens;
       return new Response('listens', { headers: { connection: 'close' } });
     });`,
  );
  const raw = `${functions.url('evil')}/raw`;
  assert.is(await (await fetch(raw)).text(), 'listens');
  await until(async () => (await (await fetch(`${raw}?answer=0`)).text()) === 'taken', 'the raw answer');
  // The fake server responds once for each connection, so a closing connection must not be reused.
  const allAreClosed = async () => {
    const open = fetch(`${raw}?open`).then((response) => response.text());
    return (await open.catch(() => undefined)) === '0';
  };
  const ask = async (at: number, method: string): Promise<{ status: number; text: string }> => {
    const response = await fetch(`${raw}?answer=${at}`, { method });
    const text = await response.text();
    // The request then started a new isolate; on a busy machine the former one may end at any moment.
    return text === 'listens' ? ask(at, method) : { status: response.status, text };
  };
  for (const [at, [what, , expected]] of RAW.entries()) {
    await until(allAreClosed, `the ends of what came before ${what}`);
    const response = await ask(at, 'POST').catch(() => undefined);
    assert.is(response?.status, expected, what);
    if (expected === 200) assert.is(response?.text, 'taken', what);
    if (expected === 500) assert.match(response?.text as string, /WORKER_ERROR/, what);
    await until(allAreClosed, `the end of ${what}`);
    await Promise.all(['GET', 'HEAD'].map((method) => ask(at, method).catch(() => undefined)));
  }
  await neighbourAnswers();
});

test('a function that writes files in place of its sockets is ended, and its log has the reason', async () => {
  await functions.deploy(
    'evil',
    'filling',
    `const server = Deno.serve(async () => {
       Deno.removeSync(server.addr.path);
       const file = Deno.openSync(server.addr.path, { create: true, write: true });
       for (;;) { file.writeSync(new Uint8Array(1_000)); await new Promise((resolve) => setTimeout(resolve, 20)); }
     });`,
  );
  const response = await fetch(`${functions.url('evil')}/filling`);
  assert.equal([response.status, ((await response.json()) as { code: string }).code], [500, 'WORKER_ERROR']);
  assert.ok(functions.logs('evil', 'filling').some(({ message }) => /wrote files in place/.test(message)));
});

test('content of a function’s browser-like caches, and of imports from memory, is not stored on disk', async () => {
  await functions.deploy(
    'evil',
    'storing',
    `Deno.serve(async () => {
       const kept = [];
       await caches.open('x').then((cache) => cache.put('http://a/b', new Response('x')))
         .then(() => kept.push('caches'), () => {});
       try { localStorage.setItem('a', 'b'); kept.push('localStorage'); } catch { /* As it should be. */ }
       const code = 'export const a: string = "imported"';
       const type = 'application/typescript';
       const { a } = await import(URL.createObjectURL(new Blob([code], { type })));
       const other = await import('data:' + type + ',' + encodeURIComponent(code));
       return Response.json({ kept, imported: [a, other.a], at: import.meta.url });
     });`,
  );
  const { at, ...result } = (await (await fetch(`${functions.url('evil')}/storing`)).json()) as { at: string };
  assert.equal(result, { kept: [], imported: ['imported', 'imported'] });
  const cache = fileURLToPath(new URL('../../.cache', at));
  const left = readdirSync(cache, { recursive: true }).map(String);
  assert.equal(
    left.filter((name) => /^(location_data|gen\/(blob|data))\//.test(name)),
    [],
  );
});

test('a redirect bypasses none of the denied addresses', async () => {
  const redirecting = `Deno.serve(async () => {
    try { return new Response('got ' + await (await fetch(Deno.env.get('SUPABASE_URL') + '/away')).text()); }
    catch (error) { return new Response('refused ' + error.message + error.cause); }
  });`;
  // The public URL itself redirects to a port of this machine.
  await functions.deploy('evil', 'away', `Deno.serve(() => Response.redirect('http://127.0.0.1:${platformPort}/'));`);
  await functions.deploy('evil', 'follows', redirecting.replace('/away', '/functions/v1/away'));
  const answer = await (await fetch(`${functions.url('evil')}/follows`)).text();
  assert.match(answer, /^refused /);
  assert.is(reached, 0);
});

const READ_BY_THE_RUNTIME = [
  ...[
    'SSLKEYLOGFILE',
    'SSL_CERT_FILE',
    'HTTP_PROXY',
    'HTTPS_PROXY',
    'ALL_PROXY',
    'NO_PROXY',
    'http_proxy',
    'all_proxy',
  ],
  ...[
    'DENO_AUDIT_PERMISSIONS',
    'DENO_CERT',
    'DENO_TLS_CA_STORE',
    'DENO_AUTH_TOKENS',
    'NODE_EXTRA_CA_CERTS',
    'NODE_OPTIONS',
  ],
  ...[
    'NODE_TLS_REJECT_UNAUTHORIZED',
    'LD_PRELOAD',
    'RUST_LOG',
    'MALLOC_CONF',
    'GLIBC_TUNABLES',
    'HOSTALIASES',
    'OTEL_DENO',
  ],
];
test('a variable that the runtime itself reads can be set neither by the function nor by the project', async () => {
  const proxy = `http://127.0.0.1:${platformPort}`;
  const own = Object.fromEntries(READ_BY_THE_RUNTIME.map((name) => [name, proxy]));
  functions.setEnvironment('proxied', { ...own, NODE_ENV: 'production', TZ: 'Asia/Tokyo', OWN: 'own' });
  const code = `import process from 'node:process';
    const names = ${JSON.stringify(READ_BY_THE_RUNTIME)};
    const seen = () => names.filter((name) =>
      Deno.env.get(name) !== undefined || process.env[name] !== undefined || name in Deno.env.toObject());
    const set = () => {
      for (const name of names) {
        try { Deno.env.set(name, '${proxy}'); } catch { /* As it should be. */ }
        try { process.env[name] = '${proxy}'; } catch { /* As it should be. */ }
      }
      return seen();
    };
    const worker = () => new Promise((done) => {
      const code = 'const names = ' + JSON.stringify(names) + ';' +
        'for (const name of names) try { Deno.env.set(name, "${proxy}"); } catch {}' +
        'postMessage(names.filter((name) => Deno.env.get(name) !== undefined));';
      const worker = new Worker('data:text/javascript,' + encodeURIComponent(code), { type: 'module' });
      worker.onmessage = ({ data }) => done(data);
    });
    Deno.serve(async () => {
      const found = [seen(), set(), await worker()];
      // The request is denied by its own address; through a proxy it would be denied by the proxy's.
      const refused = await fetch('http://10.0.0.1/').then(() => 'reached', ({ message, cause }) => message + cause);
      const { NODE_ENV, TZ, OWN } = Deno.env.toObject();
      return Response.json({ found, refused, kept: [NODE_ENV, TZ, OWN] });
    });`;
  assert.equal(await functions.deploy('proxied', 'proxied', code), { state: 'ready' });
  const { found, refused, kept } = (await (await fetch(`${functions.url('proxied')}/proxied`)).json()) as {
    found: string[][];
    refused: string;
    kept: string[];
  };
  assert.equal(found, [[], [], []]);
  assert.match(refused, /10\.0\.0\.1/);
  assert.not.match(refused, /127\.0\.0\.1/);
  assert.is(reached, 0);
  assert.equal(kept, ['production', 'Asia/Tokyo', 'own']);
  const log = functions.logs('proxied', 'proxied').find(({ message }) => /reserved/.test(message));
  assert.match(log?.message ?? '', /SSLKEYLOGFILE/);
});

const PERMITTED = `Deno.serve(async (request) => {
  const hosts = await request.json();
  const states = await Promise.all(hosts.map((host) => Deno.permissions.query({ name: 'net', host })));
  return Response.json(states.map(({ state }) => state));
});`;
const statesOf = async (at: TestFunctions, hosts: string[]) => {
  const response = await fetch(`${at.url('evil')}/permitted`, { method: 'POST', body: JSON.stringify(hosts) });
  return (await response.json()) as string[];
};

test('a function cannot reach any address of this machine, including public ones and ones added later', async () => {
  let own = ['8.8.4.4', '2606:4700::1'];
  const at = await startTestFunctions({ addressMilliseconds: 50 }, undefined, { ownAddresses: () => own });
  try {
    assert.equal(await at.deploy('evil', 'permitted', PERMITTED), { state: 'ready' });
    const hosts = ['8.8.4.4:5432', '[2606:4700::1]:5432', '[::ffff:8.8.4.4]:5432', '9.9.9.9:5432'];
    const [denied, later] = ['denied', 'granted'];
    const before = await statesOf(at, hosts);
    assert.equal([before[0], before[1], before[3]], [denied, denied, later]);
    const mapped = `Deno.serve(async () => {
      try { await Deno.connect({ hostname: '::ffff:8.8.4.4', port: 5432 }); return new Response('connected'); }
      catch (error) { return new Response(error.name); }
    });`;
    assert.equal(await at.deploy('evil', 'mapped', mapped), { state: 'ready' });
    assert.is(await (await fetch(`${at.url('evil')}/mapped`)).text(), 'NotCapable');
    own = [...own, '9.9.9.9'];
    await until(async () => (await statesOf(at, hosts))[3] === denied, 'the new address to be denied');
  } finally {
    await at.close();
  }
});

test('the addresses of every network interface are those of this machine', async () => {
  const found = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses.map(({ address }) => address));
  assert.equal(
    readOwnAddresses(),
    found.map((address) => address.split('%')[0]),
  );
  const before = readOwnAddresses();
  assert.equal(await functions.deploy('evil', 'permitted', PERMITTED), { state: 'ready' });
  // Containers beside this test add and remove interfaces; an isolate denies the addresses of its last check.
  const hosts = before
    .filter((address) => readOwnAddresses().includes(address) && !address.startsWith('fe80:'))
    .map((address) => (address.includes(':') ? `[${address}]:1` : `${address}:1`));
  assert.equal(
    await statesOf(functions, hosts),
    hosts.map(() => 'denied'),
  );
});

const HOLDS = `Deno.serve(async (request) => {
  if (request.url.includes('hold')) await new Promise(() => {});
  return new Response('alive');
});`;
const SPINS = `Deno.serve(async () => {
  const end = Date.now() + 250;
  while (Date.now() < end);
  return new Response('alive');
});`;
const FILLS = `const kept = [];
  Deno.serve(async (request) => {
    if (!request.url.includes('fill')) return new Response('alive');
    for (let n = 0; n < 120; n++) kept.push(new Uint8Array(1024 * 1024).fill(1));
    await new Promise((resolve) => setTimeout(resolve, 6_000));
    return new Response('alive');
  });`;

/** Runs with two projects of one account, and another account's project. */
async function shared(
  limits: Parameters<typeof startTestFunctions>[0],
  code: string,
  work: (at: TestFunctions) => Promise<void>,
) {
  const owner = (ref: string) => (ref === 'stranger' ? 'other@example.com' : 'evil@example.com');
  const at = await startTestFunctions(limits, undefined, { owner });
  try {
    for (const [ref, name] of [
      ['evil', 'a'],
      ['evil', 'b'],
      ['second', 'a'],
      ['stranger', 'a'],
    ] as const) {
      assert.equal(await at.deploy(ref, name, code), { state: 'ready' });
    }
    await work(at);
  } finally {
    await at.close();
  }
}

/** Sends a call without waiting for it. */
const send = (at: TestFunctions, target: string) => {
  const [ref = '', rest] = target.split('/');
  const call = fetch(`${at.url(ref)}/${rest}`, { signal: AbortSignal.timeout(60_000) });
  call.catch(() => undefined);
  return call;
};
/**
 * Sends several concurrent calls until one is rejected: on a busy machine, sequential calls may stay within the share.
 */
const refusalAt = async (at: TestFunctions, target: string) => {
  const call = async () => {
    const response = await send(at, target);
    const { code } = (await response.json().catch(() => ({}))) as { code?: string };
    return { status: response.status, code, retryAfter: Number(response.headers.get('retry-after')) };
  };
  const refusalIn = (answers: Awaited<ReturnType<typeof call>>[]) => answers.find(({ status }) => status === 429);
  const answers = await until(
    () => Promise.all([call(), call(), call(), call()]),
    (found) => refusalIn(found) !== undefined,
  );
  return refusalIn(answers) as Awaited<ReturnType<typeof call>>;
};

test('a project above its or its account’s share of isolates gets 429, and another account does not', () =>
  shared({ isolates: 8, isolatesOfProject: 1, isolatesOfAccount: 2 }, HOLDS, async (at) => {
    // Idle isolates are evicted, so only calls in flight use a share.
    assert.is((await send(at, 'evil/b')).status, 200);
    const open = [send(at, 'evil/a?hold')];
    const ofProject = await refusalAt(at, 'evil/b');
    assert.is(ofProject.code, 'PROJECT_SHARE');
    assert.ok(ofProject.retryAfter > 0);
    assert.is((await send(at, 'second/a')).status, 200);
    assert.is((await send(at, 'stranger/a')).status, 200);
    open.push(send(at, 'second/a?hold'));
    const third = `Deno.serve(() => new Response('alive'));`;
    const outcome = await until(async () => {
      const now = await at.deploy('third', 'a', third);
      return now.state === 'busy' ? now : undefined;
    }, 'a refusal of the account');
    assert.match((outcome as { message: string }).message, /projects of the account/);
    assert.is((await send(at, 'stranger/a')).status, 200);
  }));

test('a project above its share of processor time gets 429 for a while, and another account does not', () =>
  shared({ cpuMillisecondsOfShare: 1_000, coresOfProject: 0.05, coresOfAccount: 0.05 }, SPINS, async (at) => {
    const flood = async () => {
      const { code, retryAfter } = await refusalAt(at, 'evil/a');
      assert.match(code ?? '', /^(PROJECT|ACCOUNT)_SHARE$/);
      assert.ok(retryAfter > 0);
    };
    await flood();
    assert.is((await send(at, 'stranger/a')).status, 200);
    // Another project of the account has the same limit.
    assert.is((await refusalAt(at, 'second/a')).code, 'ACCOUNT_SHARE');
    await until(async () => (await send(at, 'evil/a')).status === 200, 'processor time again');
  }));

test('only the largest isolate of a project or account ends when the two exceed their memory limits', () =>
  shared({ megabytesOfProject: 220, megabytesOfAccount: 260 }, FILLS, async (at) => {
    assert.is((await send(at, 'stranger/a')).status, 200);
    const [stranger, ...ofProject] = await Promise.all(
      ['stranger/a?fill', 'evil/a?fill', 'evil/b?fill'].map((target) => send(at, target)),
    );
    assert.is(stranger?.status, 200);
    assert.equal(
      ofProject
        .map((response) => response?.status)
        .sort()
        .at(-1),
      546,
    );
    const logs = ['a', 'b'].flatMap((name) => at.logs('evil', name));
    assert.ok(logs.some(({ message }) => /project’s functions used too much/.test(message)));
    const ofAccount = await Promise.all(['second/a?fill', 'evil/a?fill'].map((target) => send(at, target)));
    assert.ok(ofAccount.some(({ status }) => status === 546));
  }));

test('a deploy check that uses too much memory fails with that reason, and other checks succeed', async () => {
  const at = await startTestFunctions({ checkMegabytes: 1 });
  try {
    // Deno alone uses more than this, so every check exceeds the limit when it is measured.
    const outcome = await at.deploy('evil', 'large', `import 'npm:is-number@7.0.0'; Deno.serve(() => new Response());`);
    assert.is(outcome.state, 'refused');
    assert.match(JSON.stringify(outcome), /too much memory/);
  } finally {
    await at.close();
  }
});

test('deploys of one account leave capacity to others, for any number of its projects', async () => {
  const owner = (ref: string) => (ref === 'stranger' ? 'other@example.com' : 'evil@example.com');
  const at = await startTestFunctions({ deploysOfAccount: 2, bootMilliseconds: 20_000 }, undefined, { owner });
  const slow = `await new Promise((resolve) => setTimeout(resolve, 6_000)); Deno.serve(() => new Response('alive'));`;
  try {
    const slowDeploys = [at.deploy('evil', 'a', slow), at.deploy('second', 'a', slow)];
    const third = await at.deploy('third', 'a', slow);
    assert.is(third.state, 'busy');
    assert.match((third as { message: string }).message, /account/);
    assert.equal(await at.deploy('stranger', 'a', `Deno.serve(() => new Response());`), { state: 'ready' });
    for (const outcome of await Promise.all(slowDeploys)) assert.equal(outcome, { state: 'ready' });
  } finally {
    await at.close();
  }
});

const GREEDY: [string, string, RegExp][] = [
  ['computes without end', 'for (;;);', /WORKER_LIMIT/],
  [
    'computes without end in a worker',
    `new Worker('data:text/javascript,for(;;);', { type: 'module' }); await new Promise(() => {});`,
    /WORKER_LIMIT/,
  ],
  ['fills the heap', 'const all = []; for (;;) all.push(new Array(1e5).fill({}));', /WORKER_(LIMIT|ERROR)/],
  [
    'fills memory outside the heap',
    'const all = []; for (;;) { all.push(new Uint8Array(2e7).fill(1)); await new Promise((r) => setTimeout(r, 1)); }',
    /WORKER_LIMIT/,
  ],
  [
    'parses a bomb of nested JSON',
    `JSON.parse('['.repeat(5e7)); return new Response();`,
    /WORKER_|Internal Server Error/,
  ],
  [
    'unpacks a bomb',
    `const all = []; for await (const chunk of request.body.pipeThrough(new DecompressionStream('gzip'))) ` +
      'all.push(chunk); return new Response();',
    /WORKER_LIMIT/,
  ],
];
const BOMB = gzipSync(Buffer.alloc(1_000_000_000));
for (const [what, body, expected] of GREEDY) {
  test(`a function that ${what} is ended with a line in its log, and affects no neighbour`, async () => {
    const outcome = await functions.deploy('evil', 'greedy', `Deno.serve(async (request) => { ${body} });`);
    assert.equal(outcome, { state: 'ready' });
    const response = await fetch(`${functions.url('evil')}/greedy`, { method: 'POST', body: BOMB });
    assert.ok(response.status >= 500);
    assert.match(await response.text(), expected);
    await neighbourAnswers();
  });
}

test('a function that crashed serves the next call', async () => {
  await functions.deploy(
    'evil',
    'once',
    `Deno.serve(async (request) => (await request.text()) === 'die' ? Deno.exit(1) : new Response('back'));`,
  );
  assert.is((await fetch(`${functions.url('evil')}/once`, { method: 'POST', body: 'die' })).status, 500);
  assert.is(await (await fetch(`${functions.url('evil')}/once`)).text(), 'back');
});

test('a function with endless output retains only its last lines, and slows down only itself', async () => {
  await functions.deploy(
    'evil',
    'loud',
    `Deno.serve(() => { for (let i = 0; i < 5000; i++) console.log('x'.repeat(5000)); return new Response(); });`,
  );
  const flood = fetch(`${functions.url('evil')}/loud`).catch(() => undefined);
  await until(() => functions.logs('evil', 'loud').length >= 100, 'the log to be full');
  await neighbourAnswers();
  const lines = functions.logs('evil', 'loud');
  assert.ok(lines.length <= 100);
  for (const { message } of lines) assert.ok(message.length < 1_100);
  await functions.deploy('evil', 'loud', `Deno.serve(() => new Response());`);
  await functions.service.deployer.remove('evil', 'loud');
  void flood;
});

test('a function that writes endless newlines is charged for each line, and neighbours respond', async () => {
  const lines = 60_000;
  await functions.deploy(
    'evil',
    'newlines',
    `Deno.serve(() => { const lines = new Uint8Array(${lines}).fill(10); for (let n = 0; n < 500; n++) ` +
      'Deno.stderr.writeSync(lines); return new Response(); });',
  );
  const flood = fetch(`${functions.url('evil')}/newlines`).catch(() => undefined);
  await until(() => functions.logs('evil', 'newlines').length >= 100, 'the log to be full');
  for (let n = 0; n < 20; n++) await neighbourAnswers();
  const newest = functions.logs('evil', 'newlines').at(-1);
  assert.ok((newest?.sequence ?? 0) < lines / 2, `${newest?.sequence} lines were kept`);
  await functions.service.deployer.remove('evil', 'newlines');
  void flood;
});

test('requests beyond the concurrency limit of a function get 429', async () => {
  await functions.deploy('evil', 'busy', `Deno.serve(() => new Promise(() => {}));`);
  const ends = new AbortController();
  const waiting = Array.from({ length: 20 }, async () => {
    while (!ends.signal.aborted) await fetch(`${functions.url('evil')}/busy`, { signal: ends.signal }).catch(() => {});
  });
  const refused = await until(async () => {
    const response = await fetch(`${functions.url('evil')}/busy`, { signal: AbortSignal.timeout(500) }).catch(
      () => undefined,
    );
    return response?.status === 429 ? response : undefined;
  }, 'a refusal');
  assert.is(refused.headers.get('retry-after'), '1');
  assert.is(refused.headers.get('x-relay-error'), 'true');
  ends.abort();
  await Promise.all(waiting);
  await neighbourAnswers();
});

test('responses that wait behind an earlier one of their connection use no places', async () => {
  await functions.deploy('evil', 'never', `Deno.serve(() => new Promise(() => {}));`);
  await functions.deploy('evil', 'quick', `Deno.serve(() => new Response('quick'));`);
  const { port, pathname } = new URL(`${functions.url('evil')}/never`);
  const ask = (target: string) => `GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
  const caller = connect(Number(port), '127.0.0.1');
  caller.write(ask(pathname) + ask(pathname.replace('never', 'quick')).repeat(20));
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const answer = await fetch(`${functions.url('evil')}/quick`);
  caller.destroy();
  assert.is(await answer.text(), 'quick');
});

test('pipelined calls of a disconnected caller use no places', async () => {
  await functions.deploy('evil', 'never', `Deno.serve(() => new Promise(() => {}));`);
  await functions.deploy('evil', 'quick', `Deno.serve(() => new Response('quick'));`);
  const { port, pathname } = new URL(`${functions.url('evil')}/never`);
  const never = `GET ${pathname} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
  const unsent = `POST ${pathname.replace('never', 'quick')} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n`;
  for (let round = 0; round < 20; round++) {
    const caller = connect(Number(port), '127.0.0.1').on('error', () => undefined);
    caller.write(never + unsent);
    await new Promise((resolve) => setTimeout(resolve, 60));
    caller.destroy();
  }
  await until(async () => (await fetch(`${functions.url('evil')}/quick`)).status === 200, 'a place');
});

test('a function has a limit of connections to the public URL', async () => {
  await functions.deploy(
    'evil',
    'descriptors',
    `const server = Deno.serve(async () => {
       const path = server.addr.path.replace('own/s', 'g');
       const closed = await Promise.all(Array.from({ length: 60 }, async () => {
         const connection = await Deno.connect({ transport: 'unix', path });
         return Promise.race([
           connection.read(new Uint8Array(1)).then(() => true, () => true),
           new Promise((resolve) => setTimeout(() => resolve(false), 2_000)),
         ]);
       }));
       return Response.json(closed.filter(Boolean).length);
     });`,
  );
  // Two for each of its 20 concurrent calls.
  assert.is(await (await fetch(`${functions.url('evil')}/descriptors`)).json(), 20);
  await functions.deploy('evil', 'descriptors', `Deno.serve(() => new Response());`);
});

test('headers that smuggle a second request reach a function as one request, or are rejected', async () => {
  await functions.deploy(
    'evil',
    'count',
    'let count = 0; Deno.serve(async (request) => { count++; ' +
      `return new Response(count + ' ' + (await request.text()).length + ' ' + ` +
      `(request.headers.get('x-forwarded-for') ?? '')); });`,
  );
  const { port, pathname } = new URL(`${functions.url('evil')}/count`);
  const raw = (text: string) =>
    new Promise<string>((resolve) => {
      let answer = '';
      const socket = connect(Number(port), '127.0.0.1', () => socket.write(text));
      socket.on('data', (chunk) => {
        answer += chunk;
      });
      socket.on('error', () => resolve(answer));
      socket.on('close', () => resolve(answer));
    });
  const start = `POST ${pathname} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n`;
  const inner = `POST ${pathname} HTTP/1.1\r\nHost: x\r\n\r\n`;
  for (const headers of [
    `Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${inner}`,
    `Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde${inner}`,
    `Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n${inner}`,
    `Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${inner}`,
    `X-Bad: a\nX-Worse: b\r\nContent-Length: 0\r\n\r\n`,
  ]) {
    assert.match(await raw(start + headers), /^HTTP\/1\.1 400 /, JSON.stringify(headers));
  }
  const forged = await raw(`${start}X-Forwarded-For: 8.8.8.8\r\nContent-Length: 0\r\n\r\n`);
  assert.match(forged, /\r\n\r\n1 0 (127\.0\.0\.1|::ffff:127\.0\.0\.1|::1)?$/);
});

const NAMES = [
  '..%2fneighbour%2fvictim',
  '%2e%2e/neighbour/victim',
  'constructor',
  '__proto__',
  'victim%00',
  '../../neighbour/functions/v1/victim',
];
test('a function of another project is not reachable by any name', async () => {
  for (const name of NAMES) {
    const { port, pathname } = new URL(`${functions.url('evil')}/`);
    const answer = await new Promise<string>((resolve) => {
      let text = '';
      const socket = connect(Number(port), '127.0.0.1', () =>
        socket.write(`GET ${pathname}${name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`),
      );
      socket.on('data', (chunk) => {
        text += chunk;
      });
      socket.on('close', () => resolve(text));
    });
    assert.match(answer, /^HTTP\/1\.1 (404|400) /, name);
  }
});

test('a deploy whose project or name is a path is rejected before anything is written', async () => {
  for (const [ref, name] of [
    ['..', 'a'],
    ['evil', '../neighbour/victim'],
    ['evil', ''],
    ['a/b', 'c'],
  ] as const) {
    try {
      await functions.deploy(ref, name, `Deno.serve(() => new Response());`);
      assert.unreachable(`${ref} ${name}`);
    } catch (error) {
      assert.match((error as Error).message, /project, name or version is not valid/);
    }
  }
});

test('isolates have no unneeded rights of the system account, and no secret in their arguments', async () => {
  await functions.deploy('evil', 'rights', `Deno.serve(() => new Response(String(Deno.pid)));`);
  const pid = await (await fetch(`${functions.url('evil')}/rights`)).text();
  if (process.platform !== 'linux') return;
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  assert.match(status, /NoNewPrivs:\s+1/);
  if (process.getuid?.() === 0) {
    assert.not.match(status, /^Uid:\s+0\b/m);
    assert.match(status, /CapEff:\s+0{16}/);
  }
  const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  const environment = execFileSync('cat', [`/proc/${pid}/environ`], { encoding: 'utf8' });
  for (const text of [line, environment]) assert.not.match(text, /service-role-key|anon-key|a-secret-of/);
});

test('the attacks in this file leave no file', () => {
  assert.not(readdirSync('/tmp').includes('slipway-evil'));
});

test.run();

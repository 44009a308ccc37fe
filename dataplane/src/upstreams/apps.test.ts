/** Tests requests at the origin of an app, which the gateway forwards to its container. */
import { type IncomingMessage, type RequestListener, request } from 'node:http';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { AppWorld, hostOf, startContainer } from './apps.testing.js';

const MIB = 1024 ** 2;

/** Container that returns the request that it got. */
const echo: RequestListener = (incoming, outgoing) => {
  let body = '';
  incoming.setEncoding('utf8').on('data', (chunk) => {
    body += chunk;
  });
  incoming.on('end', () => {
    const { method, url, headers } = incoming;
    outgoing.end(JSON.stringify({ method, url, headers, body }));
  });
};

let world: AppWorld;
test.before(async () => {
  world = await AppWorld.open();
  await world.serve('shop', echo);
});
test.after(() => world.close());

/** Runs the test in a gateway of its own. */
const inWorld = async (options: Parameters<typeof AppWorld.open>[0], run: (own: AppWorld) => Promise<void>) => {
  const own = await AppWorld.open(options);
  try {
    await run(own);
  } finally {
    await own.close();
  }
};

/** Begins a request whose body the test writes. */
function begin(own: AppWorld, ref: string, method: string, headers: Record<string, string | number> = {}) {
  const sent = request({ port: own.port, host: '127.0.0.1', method, headers: { host: hostOf(ref), ...headers } });
  const answer = new Promise<IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve);
    sent.once('error', reject);
  });
  answer.catch(() => undefined);
  return { sent, answer };
}

test('an app gets every method with path, query and Host unchanged', async () => {
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']) {
    const { status, text } = await world.ask('shop', '/rest/v1/x%2Fy?a=1&b=%20', { method });
    const seen = JSON.parse(text);
    assert.equal([status, seen.method, seen.url], [200, method, '/rest/v1/x%2Fy?a=1&b=%20']);
    assert.is(seen.headers.host, hostOf('shop'));
  }
});

test('an app gets the headers of proxies from the platform alone, in every spelling', async () => {
  const forged = {
    'x-forwarded-for': '203.0.113.9',
    X_Forwarded_For: '6.6.6.6',
    'X-Forwarded_Proto': 'gopher',
    'x-forwarded-host': 'evil.test',
    'x-forwarded-proto': 'gopher',
    'x-forwarded-port': '6',
    'x-forwarded-prefix': '/evil',
    forwarded: 'for=6.6.6.6',
    'x-real-ip': '6.6.6.6',
    x_real_ip: '6.6.6.6',
    'x-request-id': 'forged',
    te: 'trailers',
    'proxy-authorization': 'Basic x',
    connection: 'keep-alive, x-of-connection',
    'x-of-connection': '1',
    authorization: 'Bearer own',
    cookie: 'a=1',
  };
  const { text, headers } = await world.ask('shop', '/', { headers: forged });
  const { 'x-request-id': id, connection, ...seen } = JSON.parse(text).headers;
  assert.equal(seen, {
    host: hostOf('shop'),
    authorization: 'Bearer own',
    cookie: 'a=1',
    'x-forwarded-for': '203.0.113.9',
    'x-real-ip': '203.0.113.9',
    'x-forwarded-host': hostOf('shop'),
    'x-forwarded-proto': 'http',
    'x-forwarded-port': '4000',
  });
  assert.is(connection, 'keep-alive');
  assert.is.not(id, 'forged');
  assert.is(headers['x-request-id'], id);
});

test('an app of an https origin gets its protocol and the default port', async () => {
  const { upstream } = world.add('secure', undefined, { upstream: upstreamOf('shop'), siteUrl: 'https://secure.test' });
  assert.ok(upstream);
  const { headers } = JSON.parse((await world.ask('secure')).text);
  assert.equal([headers['x-forwarded-proto'], headers['x-forwarded-port']], ['https', '443']);
});

const upstreamOf = (ref: string) => (world.tenants.get(ref) as ReturnType<AppWorld['add']>).upstream;

test('the headers of an app pass the policy of its own origin, and CORS and caching are its own', async () => {
  await world.serve('headers', (_, outgoing) => {
    outgoing.writeHead(201, {
      'Set-Cookie': ['a=1; HttpOnly', 'b=2; Domain=localhost'],
      'Clear-Site-Data': '"cookies"',
      'X-Accel-Redirect': '/internal',
      'Access-Control-Allow-Origin': 'https://other.test',
      'Cache-Control': 'max-age=60',
      'Content-Security-Policy': "default-src 'self'",
      'X-Request-Id': 'of the app',
      'Keep-Alive': 'timeout=1000',
    });
    outgoing.end('made');
  });
  const { status, headers, text } = await world.ask('headers', '/', { headers: { origin: 'https://other.test' } });
  const { 'x-request-id': id, date, connection, 'keep-alive': keepAlive, 'transfer-encoding': _, ...rest } = headers;
  assert.equal([status, text], [201, 'made']);
  assert.equal(rest, {
    'set-cookie': ['a=1; HttpOnly'],
    'access-control-allow-origin': 'https://other.test',
    'cache-control': 'max-age=60',
    'content-security-policy': "default-src 'self'",
  });
  assert.is.not(id, 'of the app');
  assert.ok(date);
  assert.is.not(keepAlive, 'timeout=1000');
  assert.ok(connection);
});

test('a preflight and a response without CORS headers are the app’s own', async () => {
  const headers = { origin: 'https://other.test', 'access-control-request-method': 'PUT' };
  const answer = await world.ask('shop', '/', { method: 'OPTIONS', headers });
  assert.is(JSON.parse(answer.text).method, 'OPTIONS');
  assert.is(answer.headers['access-control-allow-origin'], undefined);
});

test('an upload of 100 MB reaches the app while it is sent, and waits for an app that does not read', async () => {
  let received = 0;
  let held: IncomingMessage | undefined;
  await world.serve('upload', (incoming, outgoing) => {
    held = incoming;
    incoming.on('data', (chunk: Buffer) => {
      received += chunk.length;
    });
    incoming.on('end', () => outgoing.end(String(received)));
    incoming.pause();
  });
  const total = 100 * MIB;
  const { sent, answer } = begin(world, 'upload', 'POST', { 'content-length': total });
  let written = 0;
  const chunk = Buffer.alloc(MIB);
  const write = () => {
    while (written < total) {
      written += chunk.length;
      if (!sent.write(chunk)) return void sent.once('drain', write);
    }
    sent.end();
  };
  write();
  await until(() => held, 'the request to arrive');
  // The sender stops once the buffers between it and the app are full: those of sockets are a few megabytes each.
  let before = -1;
  await until(() => {
    const isStill = written === before && written > 0;
    before = written;
    return isStill;
  }, 'the sender to stop');
  assert.ok(written < 50 * MIB, `${written} bytes were sent to an app that reads nothing`);
  held?.resume();
  await until(() => received > 0, 'the first bytes');
  assert.ok(written < total, 'bytes arrive before the last is sent');
  const response = await answer;
  let text = '';
  for await (const part of response) text += part;
  assert.equal([response.statusCode, text], [200, String(total)]);
});

test('an upload of 20 MB without a length reaches the app whole', async () => {
  await world.serve('chunked', async (incoming, outgoing) => {
    let received = 0;
    for await (const chunk of incoming) received += chunk.length;
    outgoing.end(`${incoming.headers['transfer-encoding']} ${received}`);
  });
  const { sent, answer } = begin(world, 'chunked', 'PUT');
  for (let at = 0; at < 20; at++) sent.write(Buffer.alloc(MIB));
  sent.end();
  let text = '';
  for await (const part of await answer) text += part;
  assert.is(text, `chunked ${20 * MIB}`);
});

test('a response that is chunked and one with a length of 20 MB arrive whole', async () => {
  const body = Buffer.alloc(20 * MIB, 'x');
  await world.serve('download', (incoming, outgoing) => {
    if (incoming.url === '/length') outgoing.setHeader('content-length', body.length);
    outgoing.write(body.subarray(0, 10));
    outgoing.end(body.subarray(10));
  });
  for (const path of ['/length', '/chunked']) assert.is((await world.ask('download', path)).text.length, body.length);
});

test('events of a stream arrive one by one, while a request body is still open', async () => {
  let stream: Parameters<RequestListener>[1] | undefined;
  await world.serve('events', (incoming, outgoing) => {
    stream = outgoing;
    incoming.resume();
    outgoing.writeHead(200, { 'Content-Type': 'text/event-stream' });
    outgoing.flushHeaders();
  });
  for (const method of ['GET', 'POST']) {
    stream = undefined;
    const { sent, answer } = begin(world, 'events', method);
    if (method === 'POST') sent.write('begun');
    else sent.end();
    const response = (await answer).setEncoding('utf8');
    let text = '';
    response.on('data', (chunk) => {
      text += chunk;
    });
    for (const event of ['data: 1\n\n', 'data: 2\n\n']) {
      const before = text;
      (stream as unknown as { write(text: string): void }).write(event);
      await until(() => text === before + event, `the event ${event}`);
    }
    sent.destroy();
    await until(() => (stream as unknown as { destroyed: boolean }).destroyed, 'the app to notice the end');
  }
});

test('a HEAD, a 304 and a 204 are forwarded without a body', async () => {
  await world.serve('bodiless', (incoming, outgoing) => {
    outgoing.writeHead(Number(incoming.url?.slice(1)), incoming.method === 'HEAD' ? { 'content-length': 7 } : {});
    outgoing.end();
  });
  const head = await world.ask('bodiless', '/200', { method: 'HEAD' });
  assert.equal([head.status, head.headers['content-length'], head.text], [200, '7', '']);
  for (const status of [204, 304]) assert.is((await world.ask('bodiless', `/${status}`)).status, status);
});

test('an app whose container is down gets 502 that names where to look, and works again after a restart', async () => {
  const container = await startContainer(echo);
  world.add('down', container.port);
  await container.close();
  const { status, headers, text } = await world.ask('down');
  assert.is(status, 502);
  assert.is(headers['content-type'], 'application/problem+json');
  assert.match(JSON.parse(text).detail, 'The app does not answer');
  assert.match(JSON.parse(text).detail, 'GET /projects/{id}');
  assert.not.match(text, /\bsite\b/);
  assert.ok(headers['x-request-id']);
  world.add('down', upstreamOf('shop')?.port);
  assert.is((await world.ask('down')).status, 200);
});

test('an app that closes its idle connections loses no request, also with a body', async () => {
  const container = await world.serve('closing', echo);
  assert.is((await world.ask('closing')).status, 200);
  assert.is(container.opened, 1);
  assert.is((await world.ask('closing')).status, 200);
  assert.is(container.opened, 1, 'the connection is reused');
  for (const socket of container.connections) socket.destroy();
  assert.is((await world.ask('closing')).status, 200);
  for (const socket of container.connections) socket.end();
  await until(() => container.connections.size === 0, 'the idle connection to close');
  assert.is((await world.ask('closing', '/', { method: 'POST' })).status, 200);
});

test('idle connections to an app are closed before the app would close them', async () => {
  await inWorld({ apps: { client: { idleMilliseconds: 20 } } }, async (own) => {
    const container = await own.serve('idle', echo);
    assert.is((await own.ask('idle')).status, 200);
    await until(() => container.connections.size === 0, 'the idle connection to close');
  });
});

test('an app that is silent gets 504', async () => {
  await inWorld({ apps: { client: { stillMilliseconds: 50 } } }, async (own) => {
    await own.serve('silent', () => undefined);
    const { status, text } = await own.ask('silent');
    assert.is(status, 504);
    assert.match(JSON.parse(text).detail, 'The app did not answer in time');
  });
});

test('requests go to a new version at once, and those in flight end at the former one', async () => {
  let ended: (() => void) | undefined;
  await world.serve('rolled', (_, outgoing) => {
    outgoing.write('first ');
    ended = () => outgoing.end('version');
  });
  const { sent, answer } = begin(world, 'rolled', 'GET');
  sent.end();
  const response = await answer;
  await world.serve('rolled', (_, outgoing) => void outgoing.end('second version'));
  assert.is((await world.ask('rolled')).text, 'second version');
  ended?.();
  let text = '';
  for await (const chunk of response) text += chunk;
  assert.is(text, 'first version');
});

test('a suspended app returns 503, and one without a running version says so', async () => {
  world.add('still', 1, { suspended: true });
  const still = await world.ask('still', '/', { method: 'POST' });
  assert.equal([still.status, JSON.parse(still.text).code], [503, 'project_suspended']);
  world.add('empty', undefined);
  const empty = await world.ask('empty', '/', { method: 'POST' });
  assert.is(empty.status, 503);
  assert.match(JSON.parse(empty.text).message, 'Nothing is deployed yet');
  assert.is(empty.headers['cache-control'], 'no-store');
  for (const { text } of [still, empty]) assert.not.match(text, /\bsite\b/);
});

test('an app is only at its own origin', async () => {
  for (const path of ['/p/shop', '/p/shop/', '/p/shop/rest/v1/x?y=1']) {
    const { status, headers, text } = await world.ask('shop', path, { host: 'localhost:4000' });
    assert.equal([status, headers.link], [404, '<http://shop.localhost:4000>; rel="canonical"']);
    assert.match(JSON.parse(text).message, 'The project shop is an app: it is at http://shop.localhost:4000');
  }
  world.add('homeless', 1, { siteUrl: undefined });
  assert.match(JSON.parse((await world.ask('homeless')).text).message, 'is an app, and has no address');
});

test('an app has no previews: a name that looks like one is unknown', async () => {
  for (const name of ['shop--main', 'main--shop', 'shop-main-abcdef', 'www.shop']) {
    const { status, text } = await world.ask(name);
    assert.is(status, 404, name);
    assert.match(text, 'There is no project at this address', name);
  }
});

test('an address that sends too many requests to an app gets 429', async () => {
  await inWorld({ rateLimit: 3 }, async (own) => {
    await own.serve('limited', echo);
    const statuses = async (address: string) => {
      const answers = Array.from({ length: 8 }, () =>
        own.ask('limited', '/', { headers: { 'x-forwarded-for': address } }),
      );
      return (await Promise.all(answers)).filter(({ status }) => status === 429).length;
    };
    assert.ok((await statuses('203.0.113.1')) > 0);
  });
});

test('an app, a visitor and an account each get only their share of the requests in flight', async () => {
  const requests = { most: 20, accountPerFree: 1 / 2, ofApp: 4, ofVisitor: 2 };
  await inWorld({ apps: { requests } }, async (own) => {
    const container = await own.serve('one', () => undefined);
    const of = { account: 'same@example.com' };
    own.add('one', container.port, of);
    own.add('two', container.port, of);
    own.add('three', container.port, of);
    own.add('other', container.port);
    let count = 0;
    const open: ReturnType<typeof begin>[] = [];
    const hold = async (ref: string, address: string) => {
      const begun = begin(own, ref, 'GET', { 'x-forwarded-for': address });
      open.push(begun);
      begun.sent.end();
      await until(() => container.opened > count, 'the request to arrive');
      count = container.opened;
    };
    const refused = async (ref: string, address: string) => {
      const { status, headers, text } = await own.ask(ref, '/', { headers: { 'x-forwarded-for': address } });
      assert.equal([status, headers['retry-after']], [503, '1']);
      assert.match(JSON.parse(text).detail, 'Too many requests to this app');
    };
    await hold('one', '203.0.113.1');
    await hold('one', '203.0.113.1');
    await refused('one', '203.0.113.1');
    await hold('one', '203.0.113.2');
    await hold('one', '203.0.113.3');
    await refused('one', '203.0.113.4');
    await hold('two', '203.0.113.1');
    await hold('two', '203.0.113.2');
    await hold('two', '203.0.113.3');
    // Seven of 20 places are in use: half of the 13 free ones is fewer than seven.
    await refused('three', '203.0.113.5');
    await hold('other', '203.0.113.5');
    for (const { sent } of open) sent.destroy();
    await until(() => container.connections.size === 0, 'the requests to end');
    await hold('one', '203.0.113.1');
    open.at(-1)?.sent.destroy();
  });
});

test('a client that leaves ends the request at the app, and an app that leaves ends the response', async () => {
  let noticed = 0;
  let leave: (() => void) | undefined;
  await world.serve('leaving', (incoming, outgoing) => {
    outgoing.once('close', () => noticed++);
    outgoing.write('half');
    leave = () => incoming.socket.destroy();
  });
  const first = begin(world, 'leaving', 'GET');
  first.sent.end();
  await first.answer;
  first.sent.destroy();
  await until(() => noticed === 1, 'the app to notice');
  const second = begin(world, 'leaving', 'GET');
  second.sent.end();
  const response = await second.answer;
  const failed = new Promise<Error>((resolve) => response.once('error', resolve));
  response.resume();
  leave?.();
  assert.match((await failed).message, 'aborted');
});

test('a client that stops sending its body gets 408', async () => {
  await inWorld({ gateway: { stillMilliseconds: 50, checkMilliseconds: 10 } }, async (own) => {
    await own.serve('slow', echo);
    const { sent, answer } = begin(own, 'slow', 'POST', { 'content-length': 100 });
    sent.write('half');
    assert.is((await answer).statusCode, 408);
    sent.destroy();
  });
});

test.run();

import { randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import path from 'node:path';
import { deflateSync } from 'node:zlib';
import { SignJWT } from 'jose';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { signToken } from '../../testing/project.js';
import { type StorageHarness, type StorageProject, startStorageHarness } from './testing.js';

let harness: StorageHarness;
let blog: StorageProject;
let shop: StorageProject;
const AL = randomUUID();

test.before(async () => {
  harness = await startStorageHarness({ limits: { fileBytes: 100_000 } });
  blog = await harness.project('blog');
  shop = await harness.project('shop');
  for (const project of [blog, shop]) {
    await project.sql(
      `insert into storage.buckets (id, name, public) values ('open', 'open', true), ('own', 'own', false)`,
    );
    const client = await project.client();
    for (const bucket of ['open', 'own']) await client.from(bucket).upload('a.txt', `${bucket} of ${project.ref}`);
  }
});

test.after(() => harness?.close());

/** Sends the path unchanged: fetch would resolve dots and reject malformed ones. */
function raw(
  method: string,
  target: string,
  headers: Record<string, string> = {},
  body = '',
): Promise<{ status: number; text: string; headers: Record<string, unknown> }> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(harness.url);
    const outgoing = httpRequest({ host: hostname, port, method, path: target, headers, agent: false });
    outgoing.on('error', reject).on('response', async (answer) => {
      let text = '';
      for await (const chunk of answer) text += chunk;
      resolve({ status: answer.statusCode as number, text, headers: answer.headers });
    });
    outgoing.end(body);
  });
}

const service = () => ({ apikey: blog.serviceRoleKey });

const TRAVERSALS = [
  '../a.txt',
  '..%2fa.txt',
  '%2e%2e/a.txt',
  '%2e%2e%2f%2e%2e%2fetc%2fpasswd',
  '..%5c..%5ca.txt',
  'x/../../shop/a.txt',
  'x/./a.txt',
  'x/%2e%2e/a.txt',
  '%00a.txt',
  'a.txt%00.png',
  '%2fetc/passwd',
  '/etc/passwd',
  'C:%5cwindows',
  '%0d%0aSet-Cookie:x',
  '%ff%fe',
  '%',
  '%c0%ae%c0%ae/a.txt',
  'a'.repeat(1025),
];

for (const name of TRAVERSALS) {
  test(`the name ${name.slice(0, 40)} is rejected on every route`, async () => {
    for (const [method, route] of [
      ['POST', '/object/open/'],
      ['PUT', '/object/open/'],
      ['GET', '/object/open/'],
      ['GET', '/object/public/open/'],
      ['GET', '/object/info/open/'],
      ['GET', '/render/image/public/open/'],
      ['DELETE', '/object/open/'],
      ['POST', '/object/sign/open/'],
      ['POST', '/object/upload/sign/open/'],
    ] as const) {
      const { status, text } = await raw(
        method,
        `/p/blog/storage/v1${route}${name}`,
        service(),
        method === 'POST' ? '{"expiresIn":60}' : '',
      );
      assert.is(status, 400, `${method} ${route}`);
      assert.match(text, /Invalid key/);
    }
    let decoded = name;
    try {
      decoded = decodeURIComponent(name);
    } catch {
      // The path is sent unchanged.
    }
    for (const [route, body] of [
      ['move', { bucketId: 'open', sourceKey: 'a.txt', destinationKey: decoded }],
      ['copy', { bucketId: 'open', sourceKey: 'a.txt', destinationKey: decoded }],
    ] as const) {
      const { status } = await raw('POST', `/p/blog/storage/v1/object/${route}`, service(), JSON.stringify(body));
      assert.is(status, 400, route);
    }
  });
}

test('all uploaded files are in their project’s folder under generated names', async () => {
  const entries = await readdir(harness.directory, { recursive: true, withFileTypes: true });
  const places = entries
    .filter((file) => file.isFile())
    .map((file) => path.relative(harness.directory, path.join(file.parentPath, file.name)));
  assert.ok(places.length >= 4);
  for (const place of places) assert.match(place, /^(blog|shop)\/content\/[0-9a-f]{2}\/[0-9a-f-]{36}$/);
});

for (const bucket of ['..', '.', '%2e%2e', 'a%2fb', 'a%5cb', '%00', '%20x', 'b'.repeat(101)]) {
  test(`the bucket name ${JSON.stringify(bucket.slice(0, 20))} is rejected`, async () => {
    for (const [method, route] of [
      ['GET', `/bucket/${bucket}`],
      ['DELETE', `/bucket/${bucket}`],
      ['GET', `/object/public/${bucket}/a.txt`],
      ['POST', `/object/${bucket}/a.txt`],
    ] as const) {
      const { status } = await raw(method, `/p/blog/storage/v1${route}`, service());
      assert.is(status, 400, `${method} ${route}`);
    }
    const name = decodeURIComponent(bucket);
    assert.is((await raw('POST', '/p/blog/storage/v1/bucket', service(), JSON.stringify({ name }))).status, 400);
  });
}

test('a signed URL is valid for no other object, bucket, project or operation, and cannot be forged', async () => {
  const bucket = (await blog.client()).from('own');
  const { data } = await bucket.createSignedUrl('a.txt', 60);
  const token = new URL(data?.signedUrl as string).searchParams.get('token') as string;
  const { data: up } = await bucket.createSignedUploadUrl('up.txt');
  const [head, payload, signature] = token.split('.') as [string, string, string];
  const forged = Buffer.from(
    JSON.stringify({ ...JSON.parse(Buffer.from(payload, 'base64url').toString()), url: 'own/up.txt' }),
  ).toString('base64url');
  const none = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${payload}.`;
  const expired = await bucket.createSignedUrl('a.txt', 1);
  const withSecret = await new SignJWT({ use: 'download', url: 'own/a.txt' })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime('1h')
    .sign(new TextEncoder().encode(blog.jwtSecret));
  const get = async (at: string, used: string) => (await fetch(`${harness.url}${at}?token=${used}`)).status;
  assert.is(await get('/p/blog/storage/v1/object/sign/own/a.txt', token), 200);
  for (const [at, used] of [
    ['/p/blog/storage/v1/object/sign/own/b.txt', token],
    ['/p/blog/storage/v1/object/sign/open/a.txt', token],
    ['/p/shop/storage/v1/object/sign/own/a.txt', token],
    ['/p/blog/storage/v1/object/sign/own/up.txt', up?.token as string],
    ['/p/blog/storage/v1/object/sign/own/up.txt', `${head}.${forged}.${signature}`],
    ['/p/blog/storage/v1/object/sign/own/a.txt', none],
    ['/p/blog/storage/v1/object/sign/own/a.txt', withSecret],
    ['/p/blog/storage/v1/object/sign/own/a.txt', blog.serviceRoleKey],
    ['/p/blog/storage/v1/object/sign/own/a.txt', ''],
    ['/p/blog/storage/v1/object/sign/own/a.txt', 'x'.repeat(10_000)],
  ] as const) {
    assert.is(await get(at, used), 400, at);
  }
  const url = expired.data?.signedUrl as string;
  while ((await fetch(url)).status === 200);
  assert.is((await fetch(url)).status, 400);
  const put = await raw('PUT', `/p/blog/storage/v1/object/upload/sign/own/a.txt?token=${token}`, {}, 'x');
  assert.is(put.status, 400);
});

test('a token that storage signed is rejected by the API', async () => {
  const { data } = await (await blog.client()).from('own').createSignedUrl('a.txt', 60);
  const token = new URL(data?.signedUrl as string).searchParams.get('token') as string;
  assert.is((await raw('GET', '/p/blog/storage/v1/bucket', { apikey: token })).status, 401);
  assert.is(
    (await raw('GET', '/p/blog/storage/v1/bucket', { apikey: blog.anonKey, authorization: `Bearer ${token}` })).status,
    400,
  );
});

test('a user cannot reach a file of another project with any key or token', async () => {
  const stranger = await signToken({ role: 'service_role' }, shop.jwtSecret);
  for (const headers of [{ apikey: shop.serviceRoleKey }, { authorization: `Bearer ${stranger}` }]) {
    const { status, text } = await raw(
      'GET',
      '/p/blog/storage/v1/object/own/a.txt',
      headers as unknown as Record<string, string>,
    );
    assert.ok([400, 401].includes(status));
    assert.not.match(text, /own of blog/);
  }
  const al = await blog.client(AL);
  assert.ok((await al.from('own').download('a.txt')).error);
});

const files = async () => {
  const entries = await readdir(path.join(harness.directory, 'blog'), { recursive: true, withFileTypes: true });
  return entries.filter((file) => file.isFile()).length;
};

test('a body beyond the limit is rejected, with or without a Content-Length, and leaves no file', async () => {
  const before = await files();
  const announced = await raw(
    'POST',
    '/p/blog/storage/v1/object/open/big',
    { ...service(), 'content-length': '100001' },
    'x'.repeat(100_001),
  );
  assert.is(announced.status, 413);
  const chunked = await raw(
    'POST',
    '/p/blog/storage/v1/object/open/big',
    { ...service(), 'transfer-encoding': 'chunked' },
    'x'.repeat(100_001),
  );
  assert.is(chunked.status, 413);
  assert.ok((await (await blog.client()).from('open').upload('big', new Blob(['x'.repeat(100_001)]))).error);
  assert.is(await files(), before);
});

test('an upload that disconnects leaves neither an object nor a file', async () => {
  const { hostname, port } = new URL(harness.url);
  for (const type of ['text/plain', 'multipart/form-data; boundary=x']) {
    const before = await files();
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    const part = type.startsWith('multipart')
      ? '--x\r\nContent-Disposition: form-data; name=""; filename="f"\r\n\r\n'
      : '';
    socket.write(
      `POST /p/blog/storage/v1/object/open/half HTTP/1.1\r\nHost: x\r\napikey: ${blog.serviceRoleKey}\r\n` +
        `Content-Type: ${type}\r\nContent-Length: 1000\r\n\r\n${part}half`,
    );
    while ((await files()) === before) await new Promise((resolve) => setImmediate(resolve));
    socket.destroy();
    while ((await files()) !== before) await new Promise((resolve) => setImmediate(resolve));
    assert.is((await (await blog.client()).from('open').exists('half')).data, false);
  }
});

const FILE = '--b\r\nContent-Disposition: form-data; name=""; filename="f"\r\nContent-Type: text/x-other\r\n\r\n';
for (const [what, form] of [
  ['parts without headers', '--b\r\n@\r\n--b\r\n@\r\n--b--'],
  ['a part without headers, and no end', '--b\r\n@\r\n'],
  ['a file of a type that is not allowed, and no end', `${FILE}half`],
  ['a file, a part without headers, and no end', `${FILE}half\r\n--b\r\n@\r\n`],
] as const) {
  test(`a form of ${what} is rejected or disconnected, and affects no other request`, async () => {
    const { hostname, port } = new URL(harness.url);
    await (await blog.client()).createBucket('plain', { public: false, allowedMimeTypes: ['text/plain'] });
    for (const bucket of ['open', 'plain']) {
      const socket = connect(Number(port), hostname);
      let received = '';
      socket.on('error', () => undefined);
      socket.on('data', (chunk) => {
        received += chunk;
      });
      socket.write(
        `POST /p/blog/storage/v1/object/${bucket}/form HTTP/1.1\r\nHost: x\r\napikey: ${blog.serviceRoleKey}\r\n` +
          `Content-Type: multipart/form-data; boundary=b\r\nContent-Length: ` +
          `${form.endsWith('--b--') ? form.length : 1000}\r\n\r\n${form}`,
      );
      await new Promise((resolve) => setTimeout(resolve, 300));
      socket.destroy();
      assert.match(received, /^$|^HTTP\/1\.1 4/);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    assert.is((await (await blog.client()).from('open').list()).error, null);
  });
}

test('a file keeps its declared type in a browser, and its page runs no script', async () => {
  const bucket = (await blog.client()).from('open');
  await bucket.upload('page.html', '<script>alert(1)</script>', { contentType: 'text/html' });
  const { headers } = await raw('GET', '/p/blog/storage/v1/object/public/open/page.html');
  assert.is(headers['x-content-type-options'], 'nosniff');
  // A browser enforces both policies: storage's own, and that of the shared origin.
  assert.match(headers['content-security-policy'] as string, /default-src 'none'.*; sandbox, sandbox allow-/);
  const named = await raw(
    'GET',
    `/p/blog/storage/v1/object/public/open/page.html?download=${encodeURIComponent('a"\r\nX-Evil: 1;ü.html')}`,
  );
  assert.is(named.headers['x-evil'], undefined);
  assert.match(
    named.headers['content-disposition'] as string,
    /^attachment; filename="a%22%0D%0AX-Evil%3A%201%3B%C3%BC.html"/,
  );
  const typed = await raw(
    'POST',
    '/p/blog/storage/v1/object/open/typed',
    { ...service(), 'content-type': 'text/html\tx' },
    'x',
  );
  assert.ok([200, 400].includes(typed.status));
});

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  const framed = Buffer.alloc(8 + body.length);
  framed.writeUInt32BE(data.length, 0);
  body.copy(framed, 4);
  framed.writeUInt32BE(crc(body), 4 + body.length);
  return framed;
}

function crc(bytes: Buffer): number {
  let value = 0xffffffff;
  for (const byte of bytes) {
    value ^= byte;
    for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ (value & 1 ? 0xedb88320 : 0);
  }
  return (value ^ 0xffffffff) >>> 0;
}

/** Small file with many pixels. */
function pixelBomb(side: number): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(side, 0);
  header.writeUInt32BE(side, 4);
  header.set([1, 0, 0, 0, 0], 8);
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(Buffer.alloc((Math.ceil(side / 8) + 1) * 100))),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

test('images that are decompression bombs, broken, or refer to other files are rejected', async () => {
  const bucket = (await blog.client()).from('open');
  const svg =
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink" width="9" height="9">' +
    '<image x:href="file:///etc/passwd"/></svg>';
  for (const [name, body] of [
    ['bomb.png', pixelBomb(30_000)],
    ['broken.png', Buffer.from('\x89PNG\r\n\x1a\nnothing', 'latin1')],
    ['file.svg', Buffer.from(svg)],
    ['text.png', Buffer.from('not an image')],
    ['empty.png', Buffer.alloc(0)],
  ] as const) {
    assert.is((await bucket.upload(name, body, { contentType: 'image/png' })).error, null);
    const { status, text } = await raw('GET', `/p/blog/storage/v1/render/image/public/open/${name}?width=10`);
    assert.is(status, 400, `${name} ${text}`);
  }
});

test('a form or JSON with excess or wrong fields is rejected', async () => {
  const form = { ...service(), 'content-type': 'multipart/form-data; boundary=x' };
  for (const [headers, body] of [
    [form, ''],
    [form, '--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n'],
    [{ ...form, 'content-type': 'multipart/form-data' }, '--x--'],
    [{ ...service(), 'x-metadata': 'bm90IGpzb24=' }, 'x'],
  ] as const) {
    const { status } = await raw('POST', '/p/blog/storage/v1/object/open/form', headers, body);
    assert.is(status, 400);
  }
  for (const body of [
    '[]',
    '{',
    '{"expiresIn":-1}',
    '{"expiresIn":1e99}',
    '{"expiresIn":"x"}',
    '{"expiresIn":60,"paths":"x"}',
  ]) {
    assert.is((await raw('POST', '/p/blog/storage/v1/object/sign/open', service(), body)).status, 400, body);
  }
  for (const body of [
    '{"prefixes":[]}',
    '{"prefixes":{}}',
    '{}',
    `{"prefixes":${JSON.stringify(Array(1001).fill('x'))}}`,
  ]) {
    assert.is((await raw('DELETE', '/p/blog/storage/v1/object/open', service(), body)).status, 400);
  }
  for (const body of [
    '{"limit":-1}',
    '{"limit":1e9}',
    '{"offset":-1}',
    '{"prefix":1}',
    '{"prefix":"\\u0000"}',
    '{"sortBy":{"column":1}}',
  ]) {
    assert.is((await raw('POST', '/p/blog/storage/v1/object/list/open', service(), body)).status, 400, body);
  }
  const sorted = await raw(
    'POST',
    '/p/blog/storage/v1/object/list/open',
    service(),
    '{"sortBy":{"column":"name; drop table storage.objects","order":"x"}}',
  );
  assert.is(sorted.status, 200);
});

for (const route of [
  '/s3',
  '/iceberg/v1/config',
  '/vector/ListVectorBuckets',
  '/cdn/open/a.txt',
  '/object',
  '/object/open',
  '/x',
  '/bucket/a/b',
  '/object/sign',
  '/render/image/public',
  '/upload/other',
  '/object/list',
]) {
  test(`the request ${route} matches no route`, async () => {
    const { status, text } = await raw('GET', `/p/blog/storage/v1${route}`, service());
    assert.is(status, 400, text);
  });
}

test('emptying a bucket ends although a trigger restores deleted objects', async () => {
  await blog.sql(`
    insert into storage.buckets (id, name) values ('endless', 'endless');
    insert into storage.objects (bucket_id, name) select 'endless', n || '.txt' from generate_series(1, 1200) n;
    create function public.put_back() returns trigger language plpgsql as $$
      begin insert into storage.objects (bucket_id, name) values (old.bucket_id, old.name); return null; end $$;
    create trigger put_back after delete on storage.objects for each row when (old.bucket_id = 'endless')
      execute function public.put_back()`);
  const client = await blog.client();
  assert.is((await client.emptyBucket('endless')).error, null);
  await blog.sql(`drop function public.put_back() cascade; delete from storage.objects where bucket_id = 'endless'`);
});

test.run();

/** Forms of sites over HTTP, with a stand-in for the API that stores entries. */
import { createServer, request as httpRequest, type IncomingHttpHeaders, type Server } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { previewName } from '@slipway/sites';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { nextPath } from '../../form-answers.js';
import { SiteWorld } from '../hosting.testing.js';
import { fieldsOf } from './form-fields.js';
import { FormLimits } from './form-limits.js';

interface Stored {
  ref: string;
  form: string;
  fields: [string, unknown][];
  flagged: string | null;
}

interface Context {
  world: SiteWorld;
  api: Server;
  stored: Stored[];
  /** Status of the stand-in. */
  answer: { status: number };
}

const SOCKET = path.join(tmpdir(), `slipway-forms-test-${process.pid}.sock`);
const test = suite<Context>('forms');
test.before(async (context) => {
  context.stored = [];
  context.answer = { status: 201 };
  context.api = createServer(async (incoming, outgoing) => {
    const pieces: Buffer[] = [];
    for await (const piece of incoming) pieces.push(piece as Buffer);
    if (context.answer.status === 201) context.stored.push(JSON.parse(Buffer.concat(pieces).toString()));
    outgoing.writeHead(context.answer.status).end();
  });
  await new Promise<void>((resolve) => context.api.listen(SOCKET, resolve));
  context.world = await SiteWorld.open({ socket: SOCKET });
  for (const ref of ['forms-a', 'forms-b', 'plain']) await context.world.deploy(ref, { 'index.html': 'home' });
});
test.after(async ({ world, api }) => {
  await world.close();
  api.close();
});
test.before.each((context) => {
  context.stored.splice(0);
  context.answer.status = 201;
});

interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
}

interface Post {
  body?: string | Buffer;
  type?: string;
  headers?: Record<string, string>;
  ref?: string;
}

const URLENCODED = 'application/x-www-form-urlencoded';

function post(world: SiteWorld, target: string, { body = 'a=b', type = URLENCODED, headers, ref = 'forms-a' }: Post) {
  return new Promise<Answer>((resolve, reject) => {
    const outgoing = httpRequest({
      host: '127.0.0.1',
      port: world.port,
      path: target,
      method: 'POST',
      headers: { host: `${ref}.localhost:4000`, 'content-type': type, accept: 'text/html', ...headers },
      agent: false,
    });
    outgoing.on('error', reject).on('response', async (answer) => {
      let text = '';
      for await (const piece of answer.setEncoding('utf8')) text += piece;
      resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text });
    });
    outgoing.end(body);
  });
}

const send = ({ world }: Context, body: string, rest: Post = {}) => post(world, '/forms/contact', { ...rest, body });

const partOf = ([head, content]: [head: string, content: string]) =>
  `--X\r\nContent-Disposition: form-data; ${head}\r\n\r\n${content}\r\n`;
const multipart = (...parts: [head: string, content: string][]) => `${parts.map(partOf).join('')}--X--\r\n`;
/** The head that browsers send for an input of a file that was left empty. */
const UNUSED_FILE = 'name="cv"; filename=""\r\nContent-Type: application/octet-stream';
const MULTIPART = 'multipart/form-data; boundary=X';

test('a urlencoded form is stored in the order of its fields, and answered by a page without a script', async (c) => {
  const { status, headers, text } = await send(c, 'email=ada%40example.com&topic=a&topic=b&text=h%C3%A4+llo');
  assert.is(status, 200);
  assert.match(text, 'The form was received.');
  assert.is(
    headers['content-security-policy'],
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  );
  assert.is(headers['x-content-type-options'], 'nosniff');
  assert.ok(headers['x-request-id']);
  const fields = [
    ['email', 'ada@example.com'],
    ['topic', 'a'],
    ['topic', 'b'],
    ['text', 'hä llo'],
  ];
  assert.equal(c.stored, [{ ref: 'forms-a', form: 'contact', fields, flagged: null }]);
});

test('multipart and JSON are stored as they are, and a program gets JSON', async (c) => {
  const accept = { accept: 'application/json' };
  const parts = multipart(['name="a b"', 'x\r\ny'], ['name="__proto__"', 'p'], [UNUSED_FILE, '']);
  const first = await send(c, parts, { type: MULTIPART, headers: accept });
  assert.equal([first.status, first.text], [200, '{"ok":true}']);
  const json = '{"n":1.5,"yes":true,"text":"x","constructor":"c","__proto__":"p"}';
  const second = await send(c, json, { type: 'application/json; charset=utf-8', headers: accept });
  assert.equal([second.status, second.text], [200, '{"ok":true}']);
  assert.equal(c.stored[0]?.fields, [
    ['a b', 'x\r\ny'],
    ['__proto__', 'p'],
  ]);
  assert.equal(c.stored[1]?.fields, [
    ['n', 1.5],
    ['yes', true],
    ['text', 'x'],
    ['constructor', 'c'],
    ['__proto__', 'p'],
  ]);
});

const REFUSED: [name: string, status: number, said: RegExp, post: Post][] = [
  [
    'a file',
    415,
    /with files.*Field: <code>cv</,
    { type: MULTIPART, body: multipart(['name="cv"; filename="cv.pdf"', 'x']) },
  ],
  [
    'an empty file',
    415,
    /with files.*Field: <code>cv</,
    { type: MULTIPART, body: multipart(['name="cv"; filename="cv.pdf"', '']) },
  ],
  [
    'a file without a name',
    415,
    /with files.*Field: <code>cv</,
    { type: MULTIPART, body: multipart([UNUSED_FILE, 'x']) },
  ],
  ['no boundary', 400, /no boundary/, { type: 'multipart/form-data', body: multipart(['name="a"', 'b']) }],
  [
    'an incomplete body',
    400,
    /not complete/,
    { type: MULTIPART, body: '--X\r\nContent-Disposition: form-data; name="a"\r\n\r\nb' },
  ],
  ['an incomplete file', 415, /with files/, { type: MULTIPART, body: partOf(['name="a"; filename="b"', 'b']) }],
  ['an incomplete empty file', 400, /not complete/, { type: MULTIPART, body: partOf([UNUSED_FILE, '']).slice(0, -2) }],
  [
    'nested parts',
    415,
    /parts of its own/,
    { type: MULTIPART, body: multipart(['name="a"\r\nContent-Type: multipart/mixed; boundary=Y', '--Y--']) },
  ],
  [
    '10,000 parts',
    413,
    /at most 64 KiB/,
    { type: MULTIPART, body: multipart(...Array.from({ length: 10_000 }, (): [string, string] => ['name="a"', 'b'])) },
  ],
  [
    '1,000 parts',
    400,
    /more than 100 fields/,
    { type: MULTIPART, body: multipart(...Array.from({ length: 1_000 }, (): [string, string] => ['name="a"', 'b'])) },
  ],
  ['101 fields', 400, /more than 100 fields/, { body: 'a=b&'.repeat(101) }],
  ['a long name', 400, /longer than 100/, { body: `${'n'.repeat(101)}=x` }],
  [
    'a long name of a part',
    400,
    /longer than 100/,
    { type: MULTIPART, body: multipart([`name="${'n'.repeat(5000)}"`, 'b']) },
  ],
  ['no name', 400, /has no name/, { body: '=x' }],
  ['no fields', 400, /has no fields/, { body: '' }],
  ['a null character', 400, /null character.*Field: <code>a</, { body: 'a=x%00y' }],
  ['a null character in JSON', 400, /null character/, { type: 'application/json', body: '{"a":"\\u0000"}' }],
  ['nested JSON', 400, /neither text.*Field: <code>deep</, { type: 'application/json', body: '{"deep":{"a":1}}' }],
  ['an infinite number', 400, /neither text/, { type: 'application/json', body: '{"n":1e999}' }],
  ['a list of JSON', 400, /must be an object/, { type: 'application/json', body: '[1]' }],
  ['no JSON', 400, /not valid JSON/, { type: 'application/json', body: '{"a":' }],
  ['plain text', 415, /urlencoded/, { type: 'text/plain', body: 'a=b' }],
  ['HTML in a name', 400, /&lt;script&gt;/, { type: 'application/json', body: '{"<script>":null}' }],
];
for (const [index, [name, status, said, refused]] of REFUSED.entries()) {
  test(`a form with ${name} is rejected with ${status}, and nothing is stored`, async (c) => {
    const ref = `forms-refused-${index}`;
    await c.world.deploy(ref, { 'index.html': 'x' });
    const answer = await post(c.world, '/forms/contact', { ...refused, ref });
    assert.is(answer.status, status, answer.text);
    assert.match(answer.text, said);
    assert.not.match(answer.text, /<script/);
    assert.equal(c.stored, []);
  });
}

test('a form with a Content-Encoding is rejected', async (c) => {
  assert.is((await send(c, 'a=b', { headers: { 'content-encoding': 'gzip' } })).status, 415);
  assert.equal(c.stored, []);
});

test('a refused field is named to a program', async (c) => {
  const { text } = await send(c, '{"deep":[]}', { type: 'application/json', headers: { accept: 'application/json' } });
  const message = 'A field is neither text, nor a number, nor true or false.';
  assert.equal(JSON.parse(text), { ok: false, message, field: 'deep' });
});

test('the name of a form has no other characters than those allowed, whatever their encoding', async (c) => {
  const { world, stored } = c;
  for (const name of [
    '',
    '../x',
    '%2e%2e%2fx',
    'a%2fb',
    'a/b',
    'A',
    'ä',
    '%C3%A4',
    '_a',
    'a%00',
    'a'.repeat(65),
    '%',
    'a.b',
  ]) {
    const { status } = await post(world, `/forms/${name}`, {});
    assert.ok(status === 404 || (status === 400 && (name === '%' || name === 'ä')), `${name}: ${status}`);
  }
  assert.equal(stored, []);
  assert.is((await post(world, `/forms/${'a'.repeat(64)}?x=/../`, {})).status, 200);
  assert.is(stored.length, 1);
});

test('only sites with forms accept a POST, below /forms/, and no preview does', async ({ world, stored }) => {
  assert.is((await post(world, '/forms/contact', { ref: 'plain' })).status, 405);
  assert.is((await post(world, '/contact', {})).status, 405);
  assert.is((await post(world, '/forms', {})).status, 405);
  assert.is((await post(world, '/forms/contact', { ref: previewName('formspreview', 'branch') })).status, 405);
  assert.is((await post(world, '/forms/contact', { ref: 'forms-undeployed' })).status, 404);
  assert.is((await world.get('forms-a', '/forms/contact', {}, 'PUT')).status, 405);
  assert.equal(stored, []);
});

test('a file of the site at the path wins', async ({ world, stored }) => {
  for (const file of ['forms/contact', 'forms/contact.html', 'forms/contact/index.html']) {
    await world.deploy('forms-own', { 'index.html': 'x', [file]: 'own' });
    await new Promise((resolve) => setTimeout(resolve, 600));
    assert.is((await post(world, '/forms/contact', { ref: 'forms-own' })).status, 405, file);
    assert.is((await post(world, '/forms/other', { ref: 'forms-own' })).status, 200, file);
  }
  assert.is(stored.length, 3);
});

test('a filled honeypot flags the entry, and the answer is the same', async (c) => {
  const plain = await send(c, 'a=b&_gotcha=&bot-field=');
  for (const name of ['_gotcha', 'bot-field']) {
    const answer = await send(c, `a=b&${name}=x`);
    assert.equal([answer.status, answer.text], [plain.status, plain.text]);
    assert.equal(Object.keys(answer.headers), Object.keys(plain.headers));
  }
  assert.equal(
    c.stored.map(({ fields, flagged }) => [fields, flagged]),
    [null, 'honeypot', 'honeypot'].map((flagged) => [[['a', 'b']], flagged]),
  );
});

test('_next leads to a path of the site, and is not stored', async (c) => {
  const { status, headers } = await send(c, `a=b&_next=${encodeURIComponent('/thanks/ä?x=1#top')}`);
  assert.equal([status, headers.location], [303, '/thanks/%C3%A4?x=1#top']);
  assert.equal(c.stored[0]?.fields, [['a', 'b']]);
  assert.is((await send(c, `a=b&_next=${encodeURIComponent('https://evil.example')}`)).status, 200);
});

test('_next never leads to another site', () => {
  const site = 'http://shop.localhost:4000';
  for (const next of [
    '//evil.example',
    '///evil.example',
    '//shop.localhost:4000/thanks',
    '/\\evil.example',
    '\\\\evil.example',
    '/\t/evil.example',
    '/\n/evil.example',
    '\t//evil.example',
    ' //evil.example',
    '/.//evil.example',
    '/..//evil.example',
    '/x/..//evil.example',
    '/%2e//evil.example',
    'https://evil.example',
    'https:evil.example',
    'http:/evil.example',
    'javascript:alert(1)',
    'data:text/html,x',
    '@evil.example',
    'evil.example',
    '',
    '/a\r\nSet-Cookie: x=1',
    `/${'a'.repeat(3000)}`,
    1,
    undefined,
  ]) {
    const path = nextPath(next, site);
    assert.is(path, undefined, String(next));
  }
  for (const [next, expected] of [
    ['/', '/'],
    ['/thanks', '/thanks'],
    ['/%2f%2fevil.example', '/%2f%2fevil.example'],
    ['/a//b', '/a//b'],
    ['/x?next=//evil.example', '/x?next=//evil.example'],
  ] as const) {
    assert.is(nextPath(next, site), expected);
    assert.is(new URL(expected, site).origin, site);
  }
});

test('a body of 1 GB is refused before it is sent, and its connection ends', async ({ world }) => {
  const answer = await new Promise<string>((resolve, reject) => {
    const socket = connect(world.port, '127.0.0.1');
    let text = '';
    socket.on('data', (piece) => {
      text += piece;
    });
    socket.on('error', reject).on('close', () => resolve(text));
    const head = ['POST /forms/contact HTTP/1.1', 'Host: forms-a.localhost:4000', `Content-Type: ${URLENCODED}`];
    socket.write([...head, `Content-Length: ${2 ** 30}`, '', 'a=b'].join('\r\n'));
  });
  assert.match(answer, /^HTTP\/1\.1 413 /);
  assert.match(answer, /\r\nConnection: close\r\n/);
});

test('a body that arrives too slowly gets 408, and its connection ends', async () => {
  const lines: string[] = [];
  const log = pino({ level: 'info' }, { write: (line) => void lines.push(line) });
  const limits = { requestMilliseconds: 200, checkMilliseconds: 50 };
  const world = await SiteWorld.open({ socket: SOCKET }, { limits, log });
  await world.deploy('forms-a', { 'index.html': 'x' });
  const answer = await new Promise<string>((resolve, reject) => {
    const socket = connect(world.port, '127.0.0.1');
    let text = '';
    socket.on('data', (piece) => {
      text += piece;
    });
    socket.on('error', reject).on('close', () => resolve(text));
    const head = ['POST /forms/contact HTTP/1.1', 'Host: forms-a.localhost:4000', `Content-Type: ${URLENCODED}`];
    socket.write([...head, 'Content-Length: 100', '', 'a=b'].join('\r\n'));
  });
  assert.match(answer, /^HTTP\/1\.1 408 /);
  assert.is(answer.split('HTTP/1.1').length, 2);
  assert.equal(lines, []);
  await world.close();
});

test('a body without a length is refused once it is too large', async (c) => {
  const { status } = await send(c, `a=${'x'.repeat(70_000)}`, { headers: { 'transfer-encoding': 'chunked' } });
  assert.is(status, 413);
  assert.equal(c.stored, []);
});

test('a project without room, and an API that is unreachable, are visible to the visitor', async (c) => {
  c.answer.status = 507;
  const full = await send(c, 'a=b', { ref: 'forms-b' });
  assert.is(full.status, 507);
  assert.match(full.text, 'must delete entries');
  for (const status of [500, 400]) {
    c.answer.status = status;
    const { headers, ...failed } = await send(c, 'a=b', { ref: 'forms-b' });
    assert.is(failed.status, 503);
    assert.is(headers['retry-after'], '5');
  }
  c.answer.status = 404;
  assert.is((await send(c, 'a=b', { ref: 'forms-b' })).status, 404);
  const world = await SiteWorld.open({ socket: path.join(tmpdir(), 'no-such-socket.sock') });
  await world.deploy('forms-a', { 'index.html': 'x' });
  const unreachable = await post(world, '/forms/contact', {});
  assert.equal([unreachable.status, unreachable.headers['retry-after']], [503, '5']);
  await world.close();
});

test('a data plane that knows no place for entries answers 503', async () => {
  const world = await SiteWorld.open();
  await world.deploy('forms-a', { 'index.html': 'x' });
  const { status, text } = await post(world, '/forms/contact', {});
  assert.is(status, 503);
  assert.match(JSON.parse(text).message, 'stores no entries of forms');
  await world.close();
});

test('a flood from one network is flagged, then rejected, and others are not affected', () => {
  const limits = new FormLimits();
  const sent = Array.from({ length: 100 }, () => {
    const wait = limits.wait('shop', '203.0.113.7');
    return wait > 0 ? 'rejected' : limits.isFlagged('shop', '203.0.113.7');
  });
  assert.equal(sent.slice(0, 11), [...Array(10).fill(false), true]);
  assert.is(sent.at(-1), 'rejected');
  assert.is(limits.wait('shop', '203.0.113.8'), 0);
  assert.is(limits.isFlagged('shop', '203.0.113.8'), false);
  assert.is(limits.wait('blog', '203.0.113.7'), 0);
});

test('a flood from many networks is limited by the project, and other projects are not affected', () => {
  const limits = new FormLimits();
  const sent = Array.from({ length: 30_000 }, (_, at) => {
    const address = `198.51.${at >> 8}.${at & 255}`;
    const wait = limits.wait('shop', address);
    return wait > 0 ? 'rejected' : limits.isFlagged('shop', address);
  });
  assert.ok(sent.filter((each) => each === false).length <= 110);
  assert.ok(sent.filter((each) => each === true).length <= 250);
  assert.is(limits.wait('blog', '203.0.113.7'), 0);
  assert.is(limits.isFlagged('blog', '203.0.113.7'), false);
});

test('lone surrogates are replaced', async () => {
  assert.equal(await fieldsOf('application/json', Buffer.from('{"a\\ud800":"\\udc00"}')), [['a\ufffd', '\ufffd']]);
});

test.run();

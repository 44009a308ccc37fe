/** Tests reports to a substitute for GitHub's API: a server of the test, which responds as GitHub documents it. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { outboundTo } from '@slipway/program/outbound.js';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { silentLog } from '../../testing.js';
import { CommitStatuses } from './commit-statuses.js';

interface Seen {
  url: string | undefined;
  headers: IncomingHttpHeaders;
  body: Record<string, unknown>;
}

const seen: Seen[] = [];
/** HTTP statuses of the next responses. When the list is empty, the status is 201. */
const answers: number[] = [];
const github = createServer(async (incoming, outgoing) => {
  let text = '';
  for await (const piece of incoming) text += piece;
  seen.push({ url: incoming.url, headers: incoming.headers, body: JSON.parse(text) });
  outgoing.writeHead(answers.shift() ?? 201, { location: '/elsewhere' }).end('{"id":1}');
});
let statuses: CommitStatuses;
let origin: string;

test.before(async () => {
  await once(github.listen(0, '127.0.0.1'), 'listening');
  origin = `http://127.0.0.1:${(github.address() as AddressInfo).port}`;
  statuses = new CommitStatuses({ outbound: outboundTo(() => true), log: silentLog, apis: { 'github.com': origin } });
});
test.before.each(() => {
  seen.length = 0;
  answers.length = 0;
});
test.after(async () => {
  await statuses.close();
  github.closeAllConnections();
  github.close();
});

const COMMIT = '4ad3b1c0f4f6d2c0a5f8e1d7b9c3a2e6f0d8b7a1';
const refusals: string[] = [];
const build = (repoUrl = 'https://github.com/ann/shop.git', token: string | null = 'ghp_canary') => ({
  repoUrl,
  token,
  context: 'slipway/shop',
  onRefusal: (why: string) => void refusals.push(why),
});
const pending = { commit: COMMIT, state: 'pending', description: 'is built' } as const;
const success = { commit: COMMIT, state: 'success', description: 'is live', url: 'http://shop.localhost' } as const;

test('a build is reported to its commit with the token, in the order of its states', async () => {
  for (const repoUrl of [
    'https://github.com/ann/shop.git',
    'git@github.com:ann/shop.git',
    'ssh://git@github.com/ann/shop',
  ]) {
    seen.length = 0;
    const report = statuses.of(build(repoUrl));
    report(pending);
    report({ ...success, description: 'x'.repeat(500) });
    await until(() => seen.length === 2, 'both are reported');
    assert.equal(
      seen.map(({ url, body }) => [url, body.state, body.context]),
      ['pending', 'success'].map((state) => [`/repos/ann/shop/statuses/${COMMIT}`, state, 'slipway/shop']),
    );
    assert.equal([...new Set(seen.map(({ headers }) => headers.authorization))], ['Bearer ghp_canary']);
    assert.equal([seen[1]?.body.target_url, `${seen[1]?.body.description}`.length], ['http://shop.localhost', 140]);
  }
});

test('a report of a build is retried while GitHub’s API fails', async () => {
  answers.push(502, 429);
  statuses.of(build())(success);
  await until(() => seen.length === 3, 'the third try');
});

test('a rejected or redirected report ends all reports of the build', async () => {
  for (const status of [401, 403, 404, 422, 302]) {
    seen.length = 0;
    refusals.length = 0;
    answers.push(status);
    const report = statuses.of(build());
    report(pending);
    report(success);
    await until(() => refusals.length === 1, `the refusal by ${status}`);
    const other = statuses.of(build('https://github.com/ann/other.git'));
    other(success);
    await until(() => seen.length === 2, 'the report of another build');
    assert.equal(
      seen.map(({ url }) => url?.split('/')[3]),
      ['shop', 'other'],
    );
    assert.match(refusals[0] ?? '', new RegExp(`\\(${status}\\): the token needs write access`));
    assert.not.match(refusals[0] ?? '', 'ghp_canary');
  }
});

test('no build is reported without a token, to another git host, or for a path that is no repository', async () => {
  for (const repoUrl of [
    'https://gitlab.com/ann/shop.git',
    'https://github.com.example.org/ann/shop.git',
    'https://github.com:8443/ann/shop.git',
    'https://github.com/shop.git',
    'https://github.com/ann/shop/more',
    'https://github.com/../shop',
    'https://github.com/ann/%2e%2e',
    'git@example.org:ann/shop.git',
  ])
    statuses.of(build(repoUrl))(success);
  statuses.of(build(undefined, null))(success);
  statuses.of(build('https://github.com/ann/last'))(success);
  await until(() => seen.length > 0, 'the last report');
  assert.equal(
    seen.map(({ url }) => url),
    [`/repos/ann/last/statuses/${COMMIT}`],
  );
});

test('an API at an address that the installation does not allow gets no report', async () => {
  const log: unknown[] = [];
  const guarded = new CommitStatuses({
    outbound: outboundTo(() => false),
    log: { ...silentLog, warn: (fields: unknown) => void log.push(fields) } as never,
    apis: { 'github.com': origin },
  });
  guarded.of(build())(success);
  await guarded.close();
  await until(() => log.length === 1, 'the report to be dropped');
  assert.equal(seen, []);
  assert.not.match(JSON.stringify(log), 'ghp_canary');
});

test.run();

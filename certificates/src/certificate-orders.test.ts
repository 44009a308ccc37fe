/**
 * Tests orders of certificates, and which files they write. A function that signs certificates itself replaces the
 * authority, because that is on the internet. `e2e/src/certificates.long.test.ts` orders from a real authority.
 */
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { isDnsName } from '@slipway/program';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Authority, AuthorityProblem } from './authority.js';
import { CertificateOrders } from './certificate-orders.js';
import { CertificateFolder } from './folder.js';
import { DAY_MS, type WantedHost } from './order-plan.js';
import { selfSigned } from './self-signed.testing.js';

const HOST = 'shop.apps.example.net';
const ACCOUNT = 'ann@example.com';

interface World {
  folder: CertificateFolder;
  wanted: WantedHost[];
  /** Hosts in the order in which the authority got orders. */
  ordered: string[];
  changed: string[];
  now: number;
  issue: Authority['issue'];
  open(): CertificateOrders;
}

const test = suite<World>('certificate orders');

test.before.each(async (world) => {
  world.folder = new CertificateFolder(await mkdtemp(path.join(tmpdir(), 'slipway-certificates-')));
  world.wanted = [{ host: HOST, account: ACCOUNT }];
  world.ordered = [];
  world.changed = [];
  world.now = Date.now();
  world.issue = (host) => selfSigned(host, { notBefore: world.now, notAfter: world.now + 90 * DAY_MS });
  world.open = () =>
    new CertificateOrders({
      folder: world.folder,
      authority: {
        issue: (host, challenges) => {
          world.ordered.push(host);
          return world.issue(host, challenges);
        },
      },
      wanted: () => world.wanted,
      onChange: (host) => world.changed.push(host),
      now: () => world.now,
      log: pino({ level: 'silent' }),
    });
});
test.after.each(async ({ folder }) => {
  await rm(folder.folder, { recursive: true, force: true });
});

test('a certificate is ordered once, kept after a restart, and readable only by its account', async (world) => {
  const orders = world.open();
  assert.is(orders.stateOf(HOST), undefined);
  await orders.look();
  await orders.look();
  assert.equal([world.ordered, world.changed], [[HOST], [HOST]]);
  assert.is(orders.stateOf(HOST)?.state, 'issued');
  assert.is((await stat(path.join(world.folder.folder, `${HOST}.pem`))).mode & 0o777, 0o600);
  assert.is((await stat(world.folder.state)).mode & 0o777, 0o600);
  const restarted = world.open();
  await restarted.look();
  assert.equal(world.ordered, [HOST]);
  assert.is(restarted.stateOf(HOST)?.state, 'issued');
});

test('a certificate is replaced in the last third of its lifetime', async (world) => {
  const orders = world.open();
  await orders.look();
  const first = await world.folder.read(HOST);
  world.now += 59 * DAY_MS;
  await orders.look();
  assert.is(world.ordered.length, 1);
  world.now += 2 * DAY_MS;
  await orders.look();
  assert.is(world.ordered.length, 2);
  assert.is.not(await world.folder.read(HOST), first);
});

test('a failed order is shown, keeps its backoff over a restart, and leaves the present certificate', async (world) => {
  const orders = world.open();
  await orders.look();
  world.now += 61 * DAY_MS;
  world.issue = async () => {
    throw new AuthorityProblem('no A record'.padEnd(2_000, '.'));
  };
  await orders.look();
  const state = orders.stateOf(HOST);
  assert.is(state?.state, 'failed');
  if (state?.state !== 'failed') return;
  assert.match(state.problem, /^no A record/);
  assert.is(state.problem.length, 300);
  assert.ok(state.notAfter);
  assert.ok(state.nextAt > world.now);
  const restarted = world.open();
  await restarted.look();
  assert.is(world.ordered.length, 2);
  world.now = state.nextAt;
  world.issue = (host) => selfSigned(host, { notBefore: world.now, notAfter: world.now + 90 * DAY_MS });
  await restarted.look();
  assert.is(restarted.stateOf(HOST)?.state, 'issued');
});

test('a rate limit of the authority stops all orders for its time, even after a restart', async (world) => {
  world.wanted.push({ host: 'blog.apps.example.net', account: ACCOUNT });
  world.issue = async () => {
    throw new AuthorityProblem('too many certificates', 3_600_000);
  };
  const orders = world.open();
  await orders.look();
  await orders.look();
  const restarted = world.open();
  await restarted.look();
  assert.equal(world.ordered, [HOST]);
  assert.equal(restarted.stateOf(HOST), {
    state: 'waiting',
    until: world.now + 3_600_000,
    problem: 'too many certificates',
  });
  world.now += 3_600_000;
  world.issue = (host) => selfSigned(host);
  await restarted.look();
  await restarted.look();
  assert.equal(world.ordered, [HOST, HOST, 'blog.apps.example.net']);
});

test('a certificate is deleted with its host', async (world) => {
  const orders = world.open();
  await orders.look();
  world.wanted = [];
  await orders.look();
  assert.equal(await world.folder.hosts(), []);
  assert.is(orders.stateOf(HOST)?.state, 'waiting');
});

test('an order whose program was killed leaves no challenge, and counts towards the daily limit', async (world) => {
  world.issue = async (_, challenges) => {
    await challenges.put('token', 'token.thumbprint');
    assert.is(await world.folder.challengeOf('token', HOST), 'token.thumbprint');
    assert.is(await world.folder.challengeOf('token', 'other.example.net'), undefined);
    return await new Promise<string>(() => undefined);
  };
  void world.open().look();
  while ((await world.folder.challengeOf('token', HOST)) === undefined) await new Promise(setImmediate);
  world.issue = async () => {
    throw new AuthorityProblem('refused');
  };
  const restarted = world.open();
  await restarted.look();
  assert.equal(await readdir(path.join(world.folder.folder, 'challenges')), []);
  assert.match(JSON.stringify(world.ordered), new RegExp(`^\\["${HOST}","${HOST}"\\]$`));
});

for (const [what, text] of [
  ['that ends early', '{"placed": 7, "attempts"'],
  ['of other types', '{"placed": 7, "attempts": null, "paused": 3}'],
  ['that is no object', 'null'],
  ['with entries of other types', `{"placed": [null, {"at": "x"}], "attempts": {"${HOST}": null}}`],
  ['with times that are none', `{"attempts": {"${HOST}": {"failures": 1, "nextAt": 1e300, "problem": ""}}}`],
  ['with a pause that no clock reaches', '{"paused": {"until": 1e300, "problem": "x"}}'],
] as const) {
  test(`a record ${what} holds up no order`, async (world) => {
    await world.folder.open();
    await writeFile(world.folder.state, text);
    const orders = world.open();
    await orders.look();
    assert.equal([world.ordered, orders.stateOf(HOST)?.state], [[HOST], 'issued']);
  });
}

test('times that a clock in the future recorded hold up no order', async (world) => {
  const present = world.now;
  const orders = world.open();
  world.now += 3_650 * DAY_MS;
  world.issue = async () => {
    throw new AuthorityProblem('too many certificates', 3 * DAY_MS);
  };
  await orders.look();
  world.now = present;
  world.issue = (host) => selfSigned(host);
  await orders.look();
  assert.is(orders.stateOf(HOST)?.state, 'issued');
});

for (const [what, issued] of [
  ['text', async () => 'no certificate'],
  ['a certificate for another host', () => selfSigned('other.example.net')],
  [
    'a certificate of another key',
    async () => {
      const [key] = (await selfSigned(HOST)).split('-----BEGIN CERTIFICATE');
      return `${key}-----BEGIN CERTIFICATE${(await selfSigned(HOST)).split('-----BEGIN CERTIFICATE')[1]}`;
    },
  ],
  [
    'a damaged chain',
    async () => `${await selfSigned(HOST)}-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n`,
  ],
] as [string, () => Promise<string>][]) {
  test(`an authority that issues ${what} leaves the present certificate`, async (world) => {
    const orders = world.open();
    await orders.look();
    const first = await world.folder.read(HOST);
    world.now += 61 * DAY_MS;
    world.issue = issued;
    await orders.look();
    assert.is(orders.stateOf(HOST)?.state, 'failed');
    assert.is(await world.folder.read(HOST), first);
  });
}

test('a certificate that ends too soon is used, and not ordered again at the next look', async (world) => {
  world.issue = (host) => selfSigned(host, { notBefore: world.now - 90 * DAY_MS, notAfter: world.now + DAY_MS });
  const orders = world.open();
  await orders.look();
  await orders.look();
  assert.equal(world.ordered, [HOST]);
  const state = orders.stateOf(HOST);
  assert.is(state?.state, 'failed');
  assert.match(JSON.stringify(state), /too soon by the clock of this machine/);
  assert.ok(await world.folder.read(HOST));
});

test('an order that cannot be recorded is not placed, and does not count', async (world) => {
  const orders = world.open();
  await world.folder.open();
  // A disk that is full refuses the write as well.
  await mkdir(path.join(`${world.folder.state}.new`, 'x'), { recursive: true });
  for (let looks = 0; looks < 60; looks++) await rejects(() => orders.look());
  assert.equal(world.ordered, []);
  await rm(`${world.folder.state}.new`, { recursive: true });
  await orders.look();
  assert.is(orders.stateOf(HOST)?.state, 'issued');
});

test('an authority that cannot be reached takes no order of the day, and gets one a minute', async (world) => {
  const issue = world.issue;
  world.issue = async () => {
    throw new AuthorityProblem('ECONNREFUSED', undefined, true);
  };
  const orders = world.open();
  for (let minutes = 0; minutes < 120; minutes++) {
    await orders.look();
    await orders.look();
    assert.is(world.ordered.length, minutes + 1);
    assert.equal(orders.stateOf(HOST), { state: 'waiting', problem: 'ECONNREFUSED' });
    world.now += 60_000;
  }
  world.issue = issue;
  await orders.look();
  assert.is(orders.stateOf(HOST)?.state, 'issued');
});

test('a long rate limit stops its host for as long, and the others for an hour', async (world) => {
  const other = 'blog.apps.example.net';
  world.wanted.push({ host: other, account: ACCOUNT });
  const orders = world.open();
  world.issue = async () => {
    throw new AuthorityProblem('five certificates for this host in a week', 2 * DAY_MS);
  };
  await orders.look();
  world.issue = (host) => selfSigned(host, { notBefore: world.now, notAfter: world.now + 90 * DAY_MS });
  await orders.look();
  assert.equal(world.ordered, [HOST]);
  world.now += 60 * 60_000;
  await orders.look();
  assert.equal(world.ordered, [HOST, other]);
  // A host that leaves and comes back waits as well.
  world.wanted.shift();
  await orders.look();
  world.wanted.unshift({ host: HOST, account: ACCOUNT });
  await orders.look();
  assert.equal(world.ordered, [HOST, other]);
  world.now += 2 * DAY_MS;
  await orders.look();
  assert.equal(world.ordered, [HOST, other, HOST]);
});

test('a rate limit of years ends after a week', async (world) => {
  const orders = world.open();
  world.issue = async () => {
    throw new AuthorityProblem('come back later', Number.MAX_SAFE_INTEGER);
  };
  await orders.look();
  const state = orders.stateOf(HOST);
  assert.is(state?.state === 'failed' && state.nextAt, world.now + 7 * DAY_MS);
});

test('an authority’s text is shown without control characters, and ends with a whole character', async (world) => {
  world.issue = async () => {
    throw new AuthorityProblem(`\u001b[2Ja\0b\r\nc\u202ed ${'\u{1f600}'.repeat(300)}`);
  };
  const orders = world.open();
  await orders.look();
  const state = orders.stateOf(HOST);
  const problem = state?.state === 'failed' ? state.problem : '';
  assert.match(problem, /^\[2Ja b c d /);
  assert.ok(problem.isWellFormed());
  assert.ok(problem.length <= 300);
});

test('a program that ends during an order records no rejection', async (world) => {
  const issued = Promise.withResolvers<string>();
  world.issue = () => issued.promise;
  const orders = world.open();
  const look = orders.look();
  while (world.ordered.length === 0) await new Promise(setImmediate);
  orders.close();
  issued.reject(new AuthorityProblem('the connection was closed'));
  await look;
  world.issue = (host) => selfSigned(host);
  const restarted = world.open();
  await restarted.look();
  assert.is(restarted.stateOf(HOST)?.state, 'issued');
});

test('a program that died between a certificate and its record shows the certificate', async (world) => {
  await world.folder.open();
  await world.folder.write(HOST, await selfSigned(HOST));
  const attempts = { [HOST]: { failures: 3, nextAt: world.now - 1, problem: 'refused' } };
  await writeFile(world.folder.state, JSON.stringify({ placed: [], attempts }));
  const orders = world.open();
  await orders.look();
  assert.is(orders.stateOf(HOST)?.state, 'issued');
  assert.equal(world.ordered, []);
});

test('keys of a host that is gone stay in no file, also after a death in mid-write', async (world) => {
  await world.folder.open();
  await world.folder.write('gone.example.net', 'a damaged certificate');
  await writeFile(path.join(world.folder.folder, `${HOST}.pem.new`), 'a key');
  await world.open().look();
  assert.equal((await readdir(world.folder.folder)).sort(), ['challenges', `${HOST}.pem`, 'state.json']);
});

test('neither a host nor a token can name a file outside the folder', async ({ folder }) => {
  await folder.open();
  for (const name of ['..', '../x', 'a/b', 'a\\b', '', '.', 'a..b', '-a', 'A.example.net', 'x'.repeat(300), 'a\0b']) {
    assert.not.ok(isDnsName(name), name);
    await rejects(() => folder.write(name, 'x'));
    await rejects(() => folder.read(name));
  }
  for (const token of ['../state.json', 'a/b', '', '.', 'x'.repeat(129), 'a\0b']) {
    assert.is(await folder.challengeOf(token, HOST), undefined);
    await rejects(() => folder.putChallenge(token, { host: HOST, keyAuthorization: 'x' }));
  }
});

async function rejects(work: () => Promise<unknown>): Promise<void> {
  let isRejected = false;
  try {
    await work();
  } catch {
    isRejected = true;
  }
  assert.ok(isRejected);
}

test.run();

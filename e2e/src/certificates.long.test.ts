/**
 * Tests HTTPS on one machine with certificates for the platform, a project and a site. A real certificate authority
 * issues them and checks the HTTP port. The certificates are valid for 60 s, so that a test sees a renewal.
 */
import { readdir, readFile, stat } from 'node:fs/promises';
import { request } from 'node:https';
import path from 'node:path';
import { freePort, until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { isPebbleInstalled, type Pebble, startPebble } from './acme/pebble.js';
import { whyNoApps } from './apps.js';
import { Management } from './management.js';
import { newPlace, type RunningPlatform, startPlatform } from './platform.js';
import { requestSite } from './site-request.js';

const LIFETIME_S = 60;
const PLATFORM = 'slipway.example.test';
const DOMAIN = 'apps.example.test';

const all = suite('certificates');
/** The suite that runs. If the authority is not installed, no test runs. */
const test = isPebbleInstalled ? all : suite('not run');
if (!isPebbleInstalled)
  all('an authority is installed', () =>
    console.log(
      '# skipped: no certificate authority, as pebble is not installed (Debian has it in the package pebble)',
    ),
  );
let pebble: Pebble;
let platform: RunningPlatform;
let person: Management;
let httpsPort: number;
let httpPort: number;
let environment: Record<string, string>;

test.before(async () => {
  httpsPort = await freePort(2);
  httpPort = httpsPort + 1;
  pebble = await startPebble({ httpPort, seconds: LIFETIME_S });
  environment = {
    SLIPWAY_PUBLIC_URL: `https://${PLATFORM}:${httpsPort}`,
    SLIPWAY_PROJECTS_DOMAIN: DOMAIN,
    SLIPWAY_HTTPS_PORT: `127.0.0.1:${httpsPort}`,
    SLIPWAY_HTTP_PORT: `127.0.0.1:${httpPort}`,
    SLIPWAY_ACME_DIRECTORY: pebble.directory,
    SLIPWAY_ACME_CERTIFICATES: pebble.certificates,
    SLIPWAY_ACME_EMAIL: 'ann@example.test',
    SLIPWAY_REGISTRATION: 'open',
  };
  platform = await startPlatform(await newPlace(), environment);
  // The first account is the administrator's, which has no limits.
  person = await Management.register(platform);
});
test.after(async () => {
  await platform?.remove();
  await pebble?.close();
});

interface Secure {
  status: number;
  text: string;
  serial: string;
}

/** Sends a request as a client that trusts only the authority, and connects to this machine. */
function ask(host: string, target = '/health'): Promise<Secure> {
  return new Promise((resolve, reject) => {
    const at = { host: '127.0.0.1', port: httpsPort, servername: host, path: target, ca: pebble.root };
    const outgoing = request({ ...at, headers: { host: `${host}:${httpsPort}` }, agent: false });
    outgoing.on('response', async (answer) => {
      const { serialNumber } = (
        answer.socket as never as { getPeerCertificate(): { serialNumber: string } }
      ).getPeerCertificate();
      let text = '';
      for await (const chunk of answer.setEncoding('utf8')) text += chunk;
      resolve({ status: answer.statusCode as number, text, serial: serialNumber });
    });
    outgoing.on('error', reject).end();
  });
}

const isSecure = (host: string) =>
  ask(host).then(
    () => true,
    () => false,
  );

interface Condition {
  type: string;
  status: string;
  reason: string;
  message: string;
}

async function certificateOf(id: number): Promise<Condition | undefined> {
  const { body } = await person.call<{ conditions: Condition[] }>('GET', `/projects/${id}/status`);
  return body.conditions.find(({ type }) => type === 'CertificateReady');
}

const untilReason = (id: number, reason: string) =>
  until(async () => (await certificateOf(id))?.reason === reason, `the reason ${reason}`, 60_000);

test('the platform serves HTTPS soon after its start, and redirects HTTP', async () => {
  await until(() => isSecure(PLATFORM), 'the certificate of the platform', 60_000);
  assert.is((await ask(PLATFORM)).status, 200);
  const { status, headers } = await requestSite(`http://${PLATFORM}:${httpPort}`, '/docs?a=b');
  assert.equal([status, headers.location], [308, `https://${PLATFORM}:${httpsPort}/docs?a=b`]);
});

test('a project, a site and an app each have a certificate and a condition', async () => {
  const lacking = await whyNoApps(person);
  if (lacking) console.log(`# skipped for apps: ${lacking}`);
  for (const type of ['shared', 'frontend', ...(lacking ? [] : ['app' as const])] as const) {
    const project = await person.untilHealthy((await person.createProject(type, undefined, type)).id);
    const host = `${project.ref}.${DOMAIN}`;
    assert.is(project.project_url, `https://${host}:${httpsPort}`);
    await until(() => isSecure(host), `the certificate of ${host}`, 60_000);
    await until(async () => (await certificateOf(project.id))?.status === 'True', 'CertificateReady', 30_000);
    const { status, text } = await ask(host, type === 'shared' ? `/auth/v1/health?apikey=${project.anon_key}` : '/');
    assert.is(status, { shared: 200, frontend: 404, app: 503 }[type]);
    if (type !== 'shared') assert.match(text, /Nothing is deployed yet/);
    assert.is((await person.call('DELETE', `/projects/${project.id}`)).status, 200);
    await person.untilGone(project.id);
    await until(
      async () => !(await readdir(path.join(platform.home, 'certificates'))).includes(`${host}.pem`),
      'the certificate is deleted with its project',
      30_000,
    );
  }
});

test('a host without a project gets no certificate', async () => {
  const before = pebble.orders();
  for (const host of [`none.${DOMAIN}`, `a.b.${DOMAIN}`, 'evil.example']) assert.not.ok(await isSecure(host), host);
  assert.is(pebble.orders(), before);
});

test('a rejected order is in the status with the authority’s reason, and other hosts are served', async () => {
  await pebble.resolveTo('127.0.0.2');
  try {
    const { id } = await person.createProject('unreachable');
    await person.untilHealthy(id);
    await untilReason(id, 'CertificateRefused');
    const { message = '' } = (await certificateOf(id)) ?? {};
    assert.match(message, /127\.0\.0\.2/);
    assert.match(message, /next order is placed at \d{4}-/);
    assert.ok(await isSecure(PLATFORM));
    await person.call('DELETE', `/projects/${id}`);
  } finally {
    await pebble.resolveTo('127.0.0.1');
  }
});

test('a rate limit of the authority stops all orders until the limit ends, and is in the status', async () => {
  pebble.limit(7);
  const { id, ref } = await person.createProject('limited');
  await person.untilHealthy(id);
  await untilReason(id, 'CertificateOrdered');
  await until(
    async () => /too many certificates/.test((await certificateOf(id))?.message ?? ''),
    'the reason of the authority',
    60_000,
  );
  const orders = pebble.orders();
  const state = JSON.parse(await readFile(path.join(platform.home, 'certificates', 'state.json'), 'utf8'));
  assert.match(state.paused.problem, /too many certificates/);
  pebble.limit(0);
  await until(() => isSecure(`${ref}.${DOMAIN}`), 'the certificate after the limit', 120_000);
  assert.ok(pebble.orders() > orders);
});

test('a certificate is renewed before it expires, and connections stay open', async () => {
  const { serial } = await ask(PLATFORM);
  await until(async () => (await ask(PLATFORM)).serial !== serial, 'another certificate', 90_000);
});

test('certificates survive a restart, and only their owner can read the keys', async () => {
  const folder = path.join(platform.home, 'certificates');
  assert.is((await stat(folder)).mode & 0o777, 0o700);
  for (const name of (await readdir(folder)).filter((each) => each !== 'challenges')) {
    assert.is((await stat(path.join(folder, name))).mode & 0o777, 0o600, name);
  }
  const place = { home: platform.home, port: platform.port };
  await platform.stop();
  const orders = pebble.orders();
  platform = await startPlatform(place, environment);
  assert.is((await ask(PLATFORM)).status, 200);
  assert.ok(pebble.orders() <= orders + 1, 'a renewal may be due');
});

all.run();

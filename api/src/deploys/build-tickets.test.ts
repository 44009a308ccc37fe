/**
 * Tests that only one running build gets git credentials, and gets them once. The tests start builds in place of the
 * operator's controller.
 */
import { createHash, randomBytes } from 'node:crypto';
import { API_VERSION, BUILD_PHASES, type BuildStatus } from '@slipway/crds';
import { namespaceOf } from '@slipway/installation';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { WRONG_TICKETS } from './build-tickets.js';
import { type Deploys, type Site, startDeploys } from './testing.js';

const TOKEN = 'ghp_canary';
let api: Deploys['api'];
let owner: Deploys['owner'];
let applySite: Deploys['applySite'];

test.before(async () => {
  ({ api, owner, applySite } = await startDeploys());
});
test.after(() => api?.close());

async function makeSite({ withToken = true } = {}): Promise<Site> {
  const site = await applySite({ source: { repoUrl: 'https://example.com/site.git' } });
  await api.operator.client.create<object>('/api/v1/namespaces', { metadata: { name: namespaceOf(site.ref) } });
  const json = { github_token: TOKEN };
  if (withToken) await api.call('PATCH', `/projects/${site.id}`, { token: owner.token, json });
  return site;
}

const newTicket = () => randomBytes(32).toString('base64url');
const digestOf = (ticket: string) => createHash('sha256').update(ticket).digest('hex');
const pathOf = ({ ref }: Site, build: string) => `/apis/${API_VERSION}/namespaces/${namespaceOf(ref)}/builds/${build}`;
const setStatus = (site: Site, build: string, status: BuildStatus) =>
  api.operator.client.patch(`${pathOf(site, build)}/status`, { status });
/** Queues a build, and starts it with a ticket. */
async function startBuild(site: Site, phase: BuildStatus['phase'] = 'Cloning') {
  const { body } = await api.call('POST', `/projects/${site.id}/deploy`, { token: owner.token });
  const build = body.message.split(' ')[0] as string;
  const ticket = newTicket();
  await setStatus(site, build, { phase, ticketDigest: digestOf(ticket) } as BuildStatus);
  return { build, ticket };
}
const redeem = ({ ref }: Site, build: string, ticket?: string) =>
  api.call('POST', `/builds/${ref}/${build}/credentials`, {
    headers: ticket === undefined ? {} : { 'x-build-ticket': ticket },
  });

test('a build that clones a repository gets the git credentials of its project once', async () => {
  const site = await makeSite();
  await api.call('POST', `/projects/${site.id}/deploy-key`, { token: owner.token });
  const { build, ticket } = await startBuild(site);
  const first = await redeem(site, build, ticket);
  assert.is(first.status, 200);
  assert.is(first.body.github_token, TOKEN);
  assert.match(first.body.deploy_key, /^-----BEGIN OPENSSH PRIVATE KEY-----\n/);
  const second = await redeem(site, build, ticket);
  assert.equal([second.status, second.body.code], [401, 'unauthorized']);
  const { status } = await api.operator.client.get<{ status: BuildStatus }>(pathOf(site, build));
  assert.equal([status.phase, status.ticketDigest], ['Cloning', undefined]);
});

test('only one of several requests with the same ticket gets the credentials', async () => {
  const site = await makeSite();
  const { build, ticket } = await startBuild(site);
  const answers = await Promise.all(Array.from({ length: 8 }, () => redeem(site, build, ticket)));
  assert.equal(answers.map(({ status }) => status).sort(), [200, ...Array(7).fill(401)]);
});

test('a build of a project without credentials gets no credentials', async () => {
  const site = await makeSite({ withToken: false });
  const { build, ticket } = await startBuild(site);
  assert.equal((await redeem(site, build, ticket)).body, { github_token: null, deploy_key: null });
});

test('the API never reads a Secret that was applied with kubectl, because the build mounts it', async () => {
  const site = await makeSite();
  await api.operator.secret(site.ref, 'of-kubectl', { token: 'plain' });
  await api.operator.patch(site.ref, { spec: { source: { tokenSecretRef: { name: 'of-kubectl' } } } });
  const { build, ticket } = await startBuild(site);
  const read = async () => (await api.call('GET', `/projects/${site.id}`, { token: owner.token })).body;
  await until(read, ({ has_github_token }) => has_github_token);
  await until(
    async () => (await api.operator.get(site.ref)).spec.source?.tokenSecretRef?.name,
    (name) => name === 'of-kubectl',
  );
  const { body } = await redeem(site, build, ticket);
  assert.not.match(JSON.stringify(body), 'plain');
});

test('only the ticket of a cloning build gets credentials, and all rejections have the same response', async () => {
  const [site, other] = [await makeSite(), await makeSite()];
  const { build, ticket } = await startBuild(site);
  const others = await startBuild(other);
  const detail = (await redeem(site, build, 'wrong')).body.detail;
  for (const [what, answer] of [
    ['no ticket', await redeem(site, build)],
    ['a wrong ticket', await redeem(site, build, newTicket())],
    ['the digest', await redeem(site, build, digestOf(ticket))],
    ['the ticket of another project', await redeem(site, build, others.ticket)],
    ['the ticket at another project', await redeem(other, others.build, ticket)],
    ['an unknown build', await redeem(site, 'build-99', ticket)],
    ['an unknown project', await redeem({ id: 0, ref: 'nowhere' }, build, ticket)],
    [
      "the owner's bearer token",
      await api.call('POST', `/builds/${site.ref}/${build}/credentials`, { token: owner.token }),
    ],
  ] as const) {
    assert.equal([answer.status, answer.body.detail], [401, detail], what);
    assert.not.match(JSON.stringify(answer.body), TOKEN, what);
  }
  assert.is((await redeem(site, build, ticket)).status, 200, 'the ticket is still valid');
  for (const path of ['..%2Fx', 'A', 'a%2F..%2Fb'])
    assert.is((await api.call('POST', `/builds/${path}/${build}/credentials`)).status, 400, path);
});

test('a Build whose name is too long for the path of its credentials is rejected', async () => {
  const { ref } = await makeSite();
  const make = (name: string) => {
    const body = { apiVersion: API_VERSION, kind: 'Build', metadata: { name }, spec: { project: ref } };
    const path = `/apis/${API_VERSION}/namespaces/${namespaceOf(ref)}/builds`;
    return api.operator.client.create<object>(path, body).then(
      () => 'made',
      ({ message }) => message as string,
    );
  };
  assert.is(await make('b'.repeat(63)), 'made');
  assert.is((await redeem({ id: 0, ref }, 'b'.repeat(63), 'wrong')).status, 401);
  assert.match(await make('b'.repeat(64)), 'at most 63 characters');
});

for (const phase of BUILD_PHASES.filter((name) => name !== 'Cloning')) {
  test(`a build in the phase ${phase} gets no credentials`, async () => {
    const site = await makeSite();
    const { build, ticket } = await startBuild(site, phase);
    assert.is((await redeem(site, build, ticket)).status, 401);
  });
}

test('wrong tickets from one address are rate-limited', async () => {
  const site = await makeSite();
  const { build } = await startBuild(site);
  const answers = [];
  for (let sent = 0; sent < WRONG_TICKETS.burst + 5; sent += 1) answers.push(await redeem(site, build, 'wrong'));
  assert.is(answers.at(-1)?.status, 429);
  assert.ok(Number(answers.at(-1)?.headers['retry-after']) > 0);
});

test.run();

/** Tests projects of type frontend on one machine, through the public addresses: over REST, and with kubectl only. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { API_VERSION, GROUP, type Project, VERSION } from '@slipway/crds';
import { namespaceOf, SECRETS } from '@slipway/installation';
import { missingWall } from '@slipway/kaniko-build-wrapper';
import { GitServer, Workshop } from '@slipway/kaniko-build-wrapper/testing.js';
import { isNotFound, type KubeObject } from '@slipway/kubernetes';
import { withClient } from '@slipway/kubernetes/testing.js';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { buildEnded, createSite as create, deploy, type Source } from './deploys.js';
import { databaseObjectsOf } from './leftovers.js';
import { Management, type ProjectView } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { requestSite, sendToSite } from './site-request.js';

const TOKEN = 'token-of-the-owner';
const missing = missingWall();

let platform: RunningPlatform;
let person: Management;
let workshop: Workshop;
let host: GitServer;

test.before(async () => {
  workshop = new Workshop();
  host = await new GitServer(workshop, TOKEN).listen();
  platform = await startPlatform(undefined, host.settings);
  // The first account is the administrator's, which has no limits.
  await Management.register(platform);
  person = await Management.register(platform);
});
test.after(async () => {
  await platform?.remove();
  host?.close();
  workshop?.close();
});

async function ask(siteUrl: string): Promise<{ status: number; body: { message?: string; code?: string } }> {
  const { status, body } = await requestSite(siteUrl);
  return { status, body: JSON.parse(body) };
}

const createSite = (name: string, source?: Source) => create(person, name, source);

const projectPath = (ref: string) => `/apis/${GROUP}/${VERSION}/projects/${ref}`;
const isThere = (path: string) =>
  withClient(platform.kubeconfig, (client) => client.get<KubeObject>(path)).then(
    () => true,
    (error: unknown) => {
      if (isNotFound(error)) return false;
      throw error;
    },
  );

test('the type frontend is available, and an account may use it by default', async () => {
  const { body } = await person.call<{ id: string; available: boolean; reason: string | null }[]>(
    'GET',
    '/backend-types',
  );
  const { available, reason } = body.find(({ id }) => id === 'frontend') ?? {};
  assert.equal([available, reason], [true, null]);
});

test('a frontend project becomes healthy without a database at its own origin, and leaves nothing', async () => {
  const project = await createSite('pages');
  const { ref } = project;
  const { port } = new URL(platform.url);
  assert.is(project.project_url, `http://${ref}.localhost:${port}`);
  const { db_url, postgrest_url, anon_key, service_role_key } = project;
  assert.equal([db_url, postgrest_url, anon_key, service_role_key], [null, null, null, null]);
  assert.ok(project.webhook_secret);
  assert.equal(await databaseObjectsOf(platform, ref), []);

  const { body: status } = await person.call<{ services: object; conditions: { type: string }[] }>(
    'GET',
    `/projects/${project.id}/status`,
  );
  const endpoint = project.project_url;
  assert.equal(status.services, { hosting: { up: true, status: 'running', endpoint } });
  const types = status.conditions.map(({ type }) => type).sort();
  assert.equal(types, ['HostingReady', 'IsolationReady', 'KeysReady', 'NamespaceReady', 'Ready', 'SiteHasRoom']);

  const site = await ask(project.project_url);
  assert.equal([site.status, site.body.message], [404, 'Nothing is deployed yet']);
  const below = await fetch(`${platform.url}/p/${ref}`);
  assert.is(below.status, 404);
  assert.match(await below.text(), project.project_url);

  const repo_url = 'https://git.example.com/ann/pages.git';
  assert.is((await person.call('PATCH', `/projects/${project.id}`, { repo_url })).status, 200);
  const deploy = await person.call<{ ok: boolean; message: string }>('POST', `/projects/${project.id}/deploy`);
  assert.is(deploy.status, 200);
  assert.ok(deploy.body.ok);

  assert.is((await person.call('DELETE', `/projects/${project.id}`)).status, 200);
  await person.untilGone(project.id);
  await until(async () => !(await isThere(`/api/v1/namespaces/${namespaceOf(ref)}`)), 'its namespace to go');
  await until(async () => (await ask(project.project_url)).body.message !== site.body.message, 'its site to go');
  const { items } = await withClient(platform.kubeconfig, (client) =>
    client.get<{ items: KubeObject[] }>('/api/v1/namespaces/slipway-system/secrets'),
  );
  assert.equal(
    items.map(({ metadata }) => metadata.name).filter((name) => name.includes(ref)),
    [],
  );
});

if (missing) console.log(`# skipped: this machine is missing ${missing}, so that it builds no site`);
else
  test('a folder without a build is deployed from its repository over REST, and served', async () => {
    const commit = workshop.repository('plain', { 'index.html': '<h1>Hello</h1>', 'docs/index.html': 'docs' });
    const project = await createSite('plain', { repo_url: `${host.origin}/plain.git`, github_token: TOKEN });
    const name = await deploy(person, project);
    const build = await buildEnded(person, project, name, 30_000);
    assert.equal([build.phase, build.commit, build.live], ['Deployed', commit, true], build.message);
    await until(async () => (await requestSite(project.project_url)).status === 200, 'the site to be served');
    assert.is((await requestSite(project.project_url)).body, '<h1>Hello</h1>');
    assert.is((await requestSite(project.project_url, '/docs/')).body, 'docs');
    assert.is((await requestSite(project.project_url, '/missing.css')).status, 404);
    await until(async () => {
      const { body } = await person.call<{ usage?: { site?: { used: number; limit: number } } }>(
        'GET',
        `/projects/${project.id}/status`,
      );
      // Two small files and a log, in steps of a megabyte.
      return body.usage?.site?.used === 1e6 && body.usage.site.limit === 8 * 2 ** 30;
    }, 'its status to have the disk that it uses');
    assert.is((await person.call('DELETE', `/projects/${project.id}`)).status, 200);
    await person.untilGone(project.id);
  });

/** A server that receives the messages of a webhook. */
async function startReceiver() {
  const messages: string[] = [];
  const server = createServer(async (incoming, outgoing) => {
    messages.push(await text(incoming));
    outgoing.writeHead(204).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { messages, url: `http://127.0.0.1:${port}/`, close: () => server.close() };
}

if (!missing)
  test('a posted form of a deployed site is an entry over REST, and a webhook receives its event', async () => {
    const page = '<form method="post" action="/forms/contact"><input name="email"></form>';
    workshop.repository('form', { 'index.html': page, 'thanks/index.html': 'thanks' });
    const project = await createSite('form', { repo_url: `${host.origin}/form.git`, github_token: TOKEN });
    const path = `/projects/${project.id}`;
    const receiver = await startReceiver();
    assert.is((await person.call('PATCH', path, { forms_enabled: true })).status, 200);
    const hook = { url: receiver.url, events: ['form.received'] };
    assert.is((await person.call('POST', `${path}/webhooks`, hook)).status, 201);
    assert.is((await buildEnded(person, project, await deploy(person, project), 30_000)).phase, 'Deployed');
    await until(async () => (await requestSite(project.project_url)).body === page, 'the site to be served');

    const headers = { 'content-type': 'application/x-www-form-urlencoded', accept: 'text/html,*/*;q=0.8' };
    const form = { method: 'POST', headers, body: 'email=ada%40example.com&_next=%2Fthanks%2F' } as const;
    const answer = await sendToSite(project.project_url, '/forms/contact', form);
    assert.equal([answer.status, answer.headers.location], [303, '/thanks/'], answer.body);
    const { body } = await person.call<{ items: { data: object }[] }>('GET', `${path}/forms/contact/entries`);
    assert.equal(
      body.items.map(({ data }) => data),
      [{ email: 'ada@example.com' }],
    );
    const message = JSON.parse(await until(() => receiver.messages[0], 'the event at the webhook'));
    assert.is(message.type, 'form.received');
    assert.equal([message.data.form, message.data.entry.data], ['contact', { email: 'ada@example.com' }]);
    receiver.close();
    assert.is((await person.call('DELETE', path)).status, 200);
    await person.untilGone(project.id);
  });

if (!missing)
  test('a site without a deployment is in error when its build fails, and healthy after the next one', async () => {
    workshop.repository('late', { 'index.html': 'late' });
    const source = { repo_url: `${host.origin}/nothing.git`, github_token: TOKEN };
    const project = await createSite('late', source);
    const shown = async () => (await person.call<ProjectView>('GET', `/projects/${project.id}`)).body;
    assert.is((await buildEnded(person, project, await deploy(person, project), 30_000)).phase, 'Failed');
    await until(async () => (await shown()).status === 'error', 'the site to be in error');
    assert.match(String((await shown()).provision_message), /^Failed: git ended with exit code 128/);
    const site = await ask(project.project_url);
    assert.equal([site.status, site.body.message], [404, 'Nothing is deployed yet']);

    const change = { repo_url: `${host.origin}/late.git` };
    assert.is((await person.call('PATCH', `/projects/${project.id}`, change)).status, 200);
    assert.is((await buildEnded(person, project, await deploy(person, project), 30_000)).phase, 'Deployed');
    await until(async () => (await shown()).status === 'healthy', 'the site to be healthy');

    assert.is((await person.call('PATCH', `/projects/${project.id}`, source)).status, 200);
    assert.is((await buildEnded(person, project, await deploy(person, project), 30_000)).phase, 'Failed');
    await until(async () => /^Failed/.test(String((await shown()).provision_message)), 'the message to tell of it');
    assert.is((await shown()).status, 'healthy', 'the live deployment is served');
  });

test('a suspended site responds 503, and is served again once it is resumed', async () => {
  const project = await createSite('resting');
  assert.is((await person.call('PATCH', `/projects/${project.id}`, { suspended: true })).status, 200);
  await until(async () => (await ask(project.project_url)).status === 503, 'the site to be suspended');
  await until(async () => {
    const { body } = await person.call<{ status: string; services: Record<string, { status: string }> }>(
      'GET',
      `/projects/${project.id}/status`,
    );
    return body.status === 'suspended' && body.services.hosting?.status === 'suspended';
  }, 'its status to be suspended');
  assert.is((await person.call('PATCH', `/projects/${project.id}`, { suspended: false })).status, 200);
  await until(async () => (await ask(project.project_url)).status === 404, 'the site to be resumed');
  await person.untilHealthy(project.id);
});

test('an applied frontend Project becomes healthy, and appears in REST with its webhook', async () => {
  const ref = 'applied-site';
  const spec = { owner: person.email, type: 'frontend', name: ref };
  await withClient(platform.kubeconfig, (client) =>
    client.create<Project>(projectPath('').slice(0, -1), {
      apiVersion: API_VERSION,
      kind: 'Project',
      metadata: { name: ref },
      spec,
    } as Project),
  );
  const shown = await until(async () => {
    const { body } = await person.call<{ id: number; ref: string }[]>('GET', '/projects');
    return body.find((each) => each.ref === ref);
  }, 'the project in REST');
  const project = await person.untilHealthy(shown.id);
  assert.ok(project.webhook_secret);
  assert.is((await ask(project.project_url)).status, 404);
});

test('a deleted namespace is restored with the same webhook secret', async () => {
  const project = await createSite('restored');
  const path = `/api/v1/namespaces/${namespaceOf(project.ref)}`;
  await withClient(platform.kubeconfig, (client) => client.delete(path));
  const secret = `${path}/secrets/${SECRETS.keys.name}`;
  await until(() => isThere(secret).catch(() => false), 'its Secret to be restored');
  await until(async () => {
    const { body } = await person.call<ProjectView>('GET', `/projects/${project.id}`);
    return body.status === 'healthy' && body.webhook_secret === project.webhook_secret;
  }, 'the same webhook secret');
});

test('a site with a new owner has no secret of the former one, and another webhook secret', async () => {
  const slack_webhook = 'https://hooks.slack.com/services/T0/B0/of-the-former-owner';
  const source = { repo_url: 'https://git.example.com/ann/handed.git', github_token: 'token-of-the-former-owner' };
  const project = await createSite('handed', source);
  assert.is((await person.call('PATCH', `/projects/${project.id}`, { slack_webhook })).status, 200);
  assert.is((await person.call('POST', `/projects/${project.id}/deploy-key`)).status, 200);
  type Secrets = { items: { data?: Record<string, string> }[] };
  const secretText = async () => {
    const path = `/api/v1/namespaces/${namespaceOf(project.ref)}/secrets`;
    const { items } = await withClient(platform.kubeconfig, (client) => client.get<Secrets>(path));
    return items.flatMap(({ data = {} }) => Object.entries(data)).join('\n');
  };
  const before = await secretText();
  const heir = await Management.register(platform);
  await withClient(platform.kubeconfig, (client) =>
    client.patch(projectPath(project.ref), { spec: { owner: heir.email } }),
  );
  await until(async () => {
    const { body } = await heir.call<ProjectView[]>('GET', '/projects');
    const found = body.find(({ ref }) => ref === project.ref);
    const view = found && (await heir.call<ProjectView>('GET', `/projects/${found.id}`)).body;
    return view?.webhook_secret && view.webhook_secret !== project.webhook_secret;
  }, 'the new owner to have a webhook secret');
  const { spec } = await withClient(platform.kubeconfig, (client) => client.get<Project>(projectPath(project.ref)));
  const { tokenSecretRef, deployKeySecretRef } = spec.source ?? {};
  assert.equal(
    [tokenSecretRef, deployKeySecretRef, spec.notifications?.slackWebhookSecretRef],
    Array(3).fill(undefined),
  );
  const kept = (await secretText()).split('\n').filter((each) => before.includes(each));
  assert.equal(
    kept.map((each) => each.split(',')[0]),
    [],
  );
  assert.is((await person.call('GET', `/projects/${project.id}`)).status, 404);
});

test('a retained site keeps its namespace and variables for the owner', async () => {
  const project = await createSite('kept');
  const env_vars = { API_URL: 'https://api.example.com' };
  assert.is((await person.call('PATCH', `/projects/${project.id}`, { env_vars })).status, 200);
  await withClient(platform.kubeconfig, (client) =>
    client.patch(projectPath(project.ref), { spec: { deletionPolicy: 'Retain' } }),
  );
  await withClient(platform.kubeconfig, (client) => client.delete(projectPath(project.ref)));
  await until(async () => !(await isThere(projectPath(project.ref))), 'the Project to go');
  assert.ok(await isThere(`/api/v1/namespaces/${namespaceOf(project.ref)}/secrets/${SECRETS.env.name}`));
});

test.run();

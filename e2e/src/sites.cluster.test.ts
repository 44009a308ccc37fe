/**
 * Tests projects of type frontend on a real cluster, from a git server on its node to pages through its Ingress. The
 * image in place of Kaniko accepts Kaniko's flags and builds with buildah (e2e/kaniko-stand-in).
 */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { API_VERSION, type Build } from '@slipway/crds';
import {
  BUILD_CERTIFICATES_SECRET,
  BUILDS_NAMESPACE,
  FORMS_PORT,
  FORMS_SERVICE,
  namespaceOf,
  PROGRAMS,
  SYSTEM_NAMESPACE,
} from '@slipway/installation';
import { GitServer, Workshop } from '@slipway/kaniko-build-wrapper/testing.js';
import { withClient } from '@slipway/kubernetes/testing.js';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ROOT } from './cluster/find.js';
import { givenCluster } from './cluster/given.js';
import { type ClusterPlatform, startOnCluster } from './cluster/platform.js';
import { run as runProgram } from './cluster/run.js';
import { KUBE, testClusterKubeconfig } from './cluster/test-cluster.js';
import { type BuildView, buildEnded, buildsOf, createSite, deliver, deploy } from './deploys.js';
import { kubectl } from './kubectl.js';
import { Management, type ProjectView } from './management.js';

const TOKEN = 'token-of-the-owner';
const SECRET = 'a value that nobody may read';
/** Maximum milliseconds of a build: pulling, cloning and building take long on two busy processors. */
const PATIENCE_MS = 240_000;

/** The API's port for entries of forms. */
const FORMS_HOST = `${FORMS_SERVICE}.${SYSTEM_NAMESPACE}.svc:${FORMS_PORT}`;

/** Commands of attacks. Each prints a unique word if it gets access. */
const ATTACKS = [
  'ls /etc/slipway-build 2>/dev/null && echo reached-order',
  'cat /var/run/secrets/kubernetes.io/serviceaccount/token 2>/dev/null && echo reached-account',
  `grep -rs "${TOKEN.slice(0, -1)}[r]" /build /workspace /tmp /proc/1/environ 2>/dev/null && echo reached-token`,
  "node -e \"require('dns').promises.lookup('kubernetes.default.svc')" +
    ".then(() => console.log('reached-' + 'names'))\" 2>/dev/null",
  ...['10.96.0.1:443', '10.244.0.1:6443', '169.254.169.254:80', '1.1.1.1:443'].map((target) => {
    const [host, port] = target.split(':');
    return (
      `node -e "require('net').connect({ host: '${host}', port: ${port}, timeout: 2000 })` +
      `.on('connect', () => { console.log('reached-' + '${host}'); process.exit() })` +
      `.on('timeout', () => process.exit()).on('error', () => {})"`
    );
  }),
  ...['kubernetes.default.svc', '169.254.169.254', '10.96.0.1', FORMS_HOST].map(
    (host) =>
      `node -e "require('http').get({ host: process.env.HTTP_PROXY.split('/')[2].split(':')[0], port: 3128, ` +
      `path: 'http://${host}/' }, (r) => console.log(r.statusCode === 403 || r.statusCode === 502 ? 'held' : ` +
      `'reached-' + 'proxied'))" 2>/dev/null`,
  ),
];

const cluster = givenCluster();
const isTestCluster = cluster && cluster.kubeconfig === (await testClusterKubeconfig().catch(() => undefined));
if (cluster && !isTestCluster)
  console.log('# skipped: only the node of the test cluster is known to reach this machine');
if (cluster && isTestCluster) {
  const run = (...args: string[]) => kubectl(cluster.kubeconfig, args);
  const inSystem = (...args: string[]) => run('-n', SYSTEM_NAMESPACE, ...args);
  let platform: ClusterPlatform;
  let person: Management;
  let workshop: Workshop;
  let host: GitServer;

  test.before(async () => {
    platform = await startOnCluster(cluster.kubeconfig, cluster.overlay);
    const { builds, outbound } = platform.site;
    const node = outbound.allowedNetworks[0]?.split('/')[0] as string;
    workshop = new Workshop(node);
    host = await new GitServer(workshop, TOKEN).listen();
    await makeBuildImages(builds);
    const { name, certificates } = BUILD_CERTIFICATES_SECRET;
    await inSystem('delete', 'secret', name, '--ignore-not-found');
    await inSystem('create', 'secret', 'generic', name, `--from-file=${certificates}=${workshop.certificate().file}`);
    person = await Management.register(platform);
  });
  test.after(async () => {
    host?.close();
    workshop?.close();
    await inSystem('delete', 'secret', BUILD_CERTIFICATES_SECRET.name, '--ignore-not-found').catch(() => undefined);
    await platform?.close();
  });

  /** Makes the image in place of Kaniko's on the node, and the image of Node in the cluster's registry. */
  async function makeBuildImages({ kaniko, nodeImage }: ClusterPlatform['site']['builds']): Promise<void> {
    const folder = path.join(ROOT, 'e2e/kaniko-stand-in');
    await runProgram(KUBE, ['build', kaniko, folder, '-f', path.join(folder, 'Dockerfile'), '--layers']);
    const tag = '24-bookworm-slim';
    const push = ['--storage-driver', 'overlay', 'push', '--tls-verify=false'];
    await runProgram('buildah', [...push, `docker.io/library/node:${tag}`, `docker://${nodeImage}:${tag}`]);
  }

  const page = async ({ project_url }: Pick<ProjectView, 'project_url'>, target = '/') => {
    const answer = await platform.network.fetch(`${project_url}${target}`);
    const robots = answer.headers.get('x-robots-tag') ?? undefined;
    return { status: answer.status, body: await answer.text(), robots };
  };

  const site = (name: string, repository?: string): Promise<ProjectView> => {
    const source = { repo_url: `${host.origin}/${repository}.git`, github_token: TOKEN };
    return createSite(person, name, repository === undefined ? undefined : source);
  };
  const ended = (project: ProjectView, name: string): Promise<BuildView> =>
    buildEnded(person, project, name, PATIENCE_MS);

  const deployed = async (project: ProjectView) => ended(project, await deploy(person, project));
  const logOf = async ({ id }: ProjectView, build: BuildView): Promise<string> => {
    const headers = { authorization: `Bearer ${person.token}` };
    const answer = await platform.network.fetch(`${platform.url}/projects/${id}/builds/${build.id}/logs`, { headers });
    return await answer.text();
  };
  const scripts = (build: string) => ({ name: 'site', version: '1.0.0', scripts: { build } });

  test('a frontend project becomes healthy, and its URL responds that nothing is deployed', async () => {
    const project = await site('waiting');
    const { status, body } = await page(project);
    assert.equal([status, JSON.parse(body).message], [404, 'Nothing is deployed yet']);
  });

  let shop: ProjectView;
  let first: BuildView;

  test('a private repository without commands is published unchanged, and served through the Ingress', async () => {
    const commit = workshop.repository('shop', { 'index.html': '<h1>one</h1>', 'docs/index.html': 'docs' });
    shop = await site('shop', 'shop');
    first = await deployed(shop);
    assert.equal([first.phase, first.commit, first.live], ['Deployed', commit, true], await logOf(shop, first));
    await until(async () => (await page(shop)).body === '<h1>one</h1>', 'it is served');
    assert.is((await page(shop, '/docs/')).body, 'docs');
    const { body: shown } = await person.call<ProjectView>('GET', `/projects/${shop.id}`);
    assert.is(shown.provision_message, 'Deployed');
    assert.match(await logOf(shop, first), new RegExp(`commit ${commit}`));
  });

  test('a form that is posted through the Ingress is an entry over REST', async () => {
    const place = `/projects/${shop.id}`;
    assert.is((await person.call('PATCH', place, { forms_enabled: true })).status, 200);
    const headers = { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' };
    const form = { method: 'POST', headers, body: 'email=ada%40example.com' };
    // Gateways, the pod of sites and the API's replicas learn of the change one after another.
    const answer = await until(async () => {
      const response = await platform.network.fetch(`${shop.project_url}/forms/contact`, form);
      const body = await response.text();
      return [404, 405].includes(response.status) ? undefined : { status: response.status, body };
    }, 'forms to be accepted');
    assert.equal(answer, { status: 200, body: '{"ok":true}' });
    type Entries = { items: { data: object; flagged: string | null }[] };
    const { body } = await person.call<Entries>('GET', `${place}/forms/contact/entries`);
    assert.equal(
      body.items.map(({ data, flagged }) => ({ data, flagged })),
      [{ data: { email: 'ada@example.com' }, flagged: null }],
    );
  });

  test('a build runs the commands with the owner’s variables, which its log does not show', async () => {
    workshop.repository('shop', {
      'package.json': scripts('mkdir -p dist && echo "it is $SECRET" && echo "$GREETING" > dist/index.html'),
    });
    const env_vars = { SECRET, GREETING: 'two' };
    assert.is((await person.call('PATCH', `/projects/${shop.id}`, { env_vars })).status, 200);
    const second = await deployed(shop);
    const log = await logOf(shop, second);
    assert.is(second.phase, 'Deployed', `${second.message}\n${log}`);
    assert.equal(
      second.steps.map(({ name, exit_code }) => [name, exit_code]),
      [
        ['Cloning', 0],
        ['Installing', 0],
        ['Building', 0],
      ],
    );
    assert.match(log, /it is \[redacted\]/);
    assert.not.ok(log.includes(SECRET) || log.includes(TOKEN));
    await until(async () => (await page(shop)).body === 'two\n', 'the second is served');
  });

  test('a rollback takes the earlier deployment live, without a pod', async () => {
    const back = await person.call<{ message: string }>('POST', `/projects/${shop.id}/builds/${first.id}/rollback`);
    assert.is((await ended(shop, back.body.message.split(' ')[0] as string)).phase, 'Deployed');
    await until(async () => (await page(shop)).body === '<h1>one</h1>', 'the first is served again');
  });

  let branches: ProjectView;

  test('a branch has a preview at its own host from its push to its deletion, beside the site', async () => {
    workshop.repository('branches', { 'index.html': 'the site' });
    const tree = path.join(workshop.folder, 'trees/branches');
    const project = await site('branches', 'branches');
    branches = project;
    assert.is((await person.call('PATCH', `/projects/${project.id}`, { previews: true })).status, 200);
    const { body: full } = await person.call<ProjectView>('GET', `/projects/${project.id}`);
    const push = async (change: object = {}) => {
      const after = workshop.git(tree, 'rev-parse', 'HEAD').trim();
      const { message } = await deliver(platform, project, full.webhook_secret, {
        ref: 'refs/heads/feature/next',
        after,
        ...change,
      });
      return message;
    };
    workshop.git(tree, 'checkout', '--quiet', '-b', 'feature/next');
    writeFileSync(path.join(tree, 'index.html'), 'next');
    writeFileSync(path.join(tree, '_headers'), '/*\n  X-Robots-Tag: all\n');
    const commit = workshop.commit('branches');
    const ofSite = await deploy(person, project);
    const ofPreview = (await push()).split(' ')[0] as string;
    const [production, preview] = await Promise.all([ended(project, ofSite), ended(project, ofPreview)]);
    assert.equal(
      [production.phase, preview.phase, preview.commit],
      ['Deployed', 'Deployed', commit],
      `${production.message}\n${preview.message}`,
    );
    const isSite = { status: 200, body: 'the site', robots: undefined };
    await until(async () => (await page(project)).status === 200, 'the site is served');
    assert.equal(await page(project), isSite);

    type Preview = { branch: string; url: string; build_id: number; bytes: number };
    const { body: previews } = await person.call<Preview[]>('GET', `/projects/${project.id}/previews`);
    assert.equal(
      previews.map(({ branch, build_id, bytes }) => [branch, build_id, bytes]),
      [['feature/next', preview.id, 'next'.length]],
    );
    const url = previews[0]?.url as string;
    const shown = () => page({ project_url: url });
    await until(async () => (await shown()).status === 200, 'the preview is served through the Ingress');
    assert.equal(await shown(), { status: 200, body: 'next', robots: 'noindex' });
    const name = new URL(url).hostname.split('.')[0] as string;
    const route = () => inSystem('get', 'ingress', namespaceOf(name), '-o', 'name', '--ignore-not-found');
    assert.match(await route(), /ingress/);

    assert.match(await push({ after: '0'.repeat(40), deleted: true }), /is removed/);
    await until(async () => (await route()).trim() === '', 'its route is removed');
    await until(async () => (await shown()).status === 404, 'the preview is removed');
    const folder = `/var/lib/slipway/sites/${project.ref}/previews`;
    const left = async () => (await inSystem('exec', `${PROGRAMS.hosting}-0`, '--', 'ls', folder)).trim();
    await until(async () => (await left()) === '', 'its files are removed');
    assert.equal(await page(project), isSite);
  });

  test('a check for missed pushes builds a new commit, and its Build is deleted when there is none', async () => {
    const tree = path.join(workshop.folder, 'trees/branches');
    workshop.git(tree, 'checkout', '--quiet', 'main');
    const unless = workshop.git(tree, 'rev-parse', 'HEAD').trim();
    const builds = `/apis/${API_VERSION}/namespaces/${namespaceOf(branches.ref)}/builds`;
    const check = (name: string) =>
      withClient(cluster.kubeconfig, (client) =>
        client.create<Build>(builds, {
          apiVersion: API_VERSION,
          kind: 'Build',
          metadata: { name },
          spec: { project: branches.ref, trigger: 'poll', unless },
        }),
      );
    const isThere = async (name: string) => (await buildsOf(person, branches)).some((build) => build.name === name);
    await check('unneeded');
    await until(async () => !(await isThere('unneeded')), 'the Build is deleted', PATIENCE_MS);
    await until(async () => (await inBuilds()) === '', 'nothing of a build is left');
    assert.is((await page(branches)).body, 'the site');

    writeFileSync(path.join(tree, 'index.html'), 'the missed push');
    const commit = workshop.commit('branches');
    await check('needed');
    const build = await ended(branches, 'needed');
    assert.equal([build.phase, build.commit], ['Deployed', commit], build.message);
    await until(async () => (await page(branches)).body === 'the missed push', 'it is served');
  });

  test('a deleted pod of sites is replaced, with all deployments and logs', async () => {
    await inSystem('delete', 'pod', `${PROGRAMS.hosting}-0`);
    await inSystem('rollout', 'status', `statefulset/${PROGRAMS.hosting}`, '--timeout=120s');
    await until(async () => (await page(shop)).body === '<h1>one</h1>', 'the site is served again');
    assert.match(await logOf(shop, first), /commit/);
  });

  test('a build’s command can’t access a token, an account, DNS or an address of the cluster', async () => {
    workshop.repository('attacks', {
      'package.json': scripts('sh attacks.sh; mkdir -p dist; echo done > dist/index.html; true'),
      'attacks.sh': `${ATTACKS.join('\n')}\necho all-tried\n`,
    });
    const project = await site('attacks', 'attacks');
    const build = await deployed(project);
    const log = await logOf(project, build);
    assert.match(log, /^all-tried$/m);
    assert.equal(log.match(/reached-\S+/g) ?? [], [], log);
    assert.is(build.phase, 'Deployed', log);
  });

  test('a failed build keeps the live site, and has the exit code of the command', async () => {
    workshop.repository('shop', { 'package.json': scripts('echo broken on purpose >&2; exit 7') });
    const failed = await deployed(shop);
    const log = await logOf(shop, failed);
    assert.is(failed.phase, 'Failed', log);
    assert.is(failed.steps.find(({ name }) => name === 'Building')?.exit_code, 7, JSON.stringify(failed));
    assert.match(log, /broken on purpose/);
    assert.is((await page(shop)).body, '<h1>one</h1>');
  });

  test('a link of the output is left out, and a missing token fails the clone with exit code 128', async () => {
    const build = 'mkdir -p dist && echo linked > dist/index.html && ln -s /etc/passwd dist/passwd';
    workshop.repository('linked', { 'package.json': scripts(build) });
    const project = await site('linked', 'linked');
    const made = await deployed(project);
    const log = await logOf(project, made);
    assert.is(made.phase, 'Deployed', log);
    assert.match(log, 'passwd is not published: it is a symbolic link');
    assert.is((await page(project)).body.trim(), 'linked');
    await person.call('PATCH', `/projects/${project.id}`, { github_token: null });
    const failed = await deployed(project);
    assert.equal([failed.phase, failed.steps.length, failed.steps[0]?.exit_code], ['Failed', 1, 128]);
  });

  test('a build survives a restart of the operator, and a cancelled build leaves no pod', async () => {
    workshop.repository('slow', {
      'package.json': scripts('echo begun && sleep 20 && mkdir -p dist && echo slow > dist/index.html'),
    });
    const project = await site('slow', 'slow');
    const name = await deploy(person, project);
    const isBuilding = async () =>
      (await buildsOf(person, project)).find((each) => each.name === name)?.phase === 'Building';
    await until(isBuilding, 'it builds', PATIENCE_MS);
    await inSystem('delete', 'pods', '-l', `app.kubernetes.io/name=${PROGRAMS.operator}`, '--force', '--wait=false');
    const build = await ended(project, name);
    assert.is(build.phase, 'Deployed', build.message);
    assert.is((await logOf(project, build)).match(/^begun$/gm)?.length, 1);

    workshop.repository('slow', { 'package.json': scripts('sleep 600') });
    const next = await deploy(person, project);
    const building = await until(
      async () => (await buildsOf(person, project)).find((each) => each.name === next && each.phase === 'Building'),
      'the next one builds',
      PATIENCE_MS,
    );
    assert.is((await person.call('POST', `/projects/${project.id}/builds/${building.id}/cancel`)).status, 200);
    assert.is((await ended(project, next)).phase, 'Cancelled');
    await until(async () => (await inBuilds()) === '', 'nothing of a build is left');
    await until(async () => (await page(project)).body === 'slow\n', 'the earlier one is served');
  });

  const inBuilds = () =>
    run('-n', BUILDS_NAMESPACE, 'get', 'jobs,pods,secrets', '-o', 'name', '--ignore-not-found').then((text) =>
      text.trim(),
    );

  test('deleting a project removes its files and its route', async () => {
    assert.is((await person.call('DELETE', `/projects/${shop.id}`)).status, 200);
    await person.untilGone(shop.id);
    const kept = await inSystem('exec', `${PROGRAMS.hosting}-0`, '--', 'ls', '/var/lib/slipway/sites');
    assert.not.ok(kept.split('\n').includes(shop.ref));
    await until(async () => (await page(shop)).status === 404, 'its route is removed');
  });

  test.run();
}

/**
 * Projects led through all that can become of them on a cluster, so that the programs do all that they ever do at the
 * Kubernetes API. In: an installed platform. Used by the test of the roles.
 */
import { API_VERSION, namespaceOf, type Plan, SECRETS } from '@slipway/crds';
import { kubectl } from '../kubectl.js';
import { Management, type ProjectView } from '../management.js';
import { TODOS_SQL, usedByTwoPeople } from '../todos.js';
import { until } from '../until.js';
import type { ClusterPlatform } from './platform.js';

const WAIT = '--timeout=180s';

export async function leadWholeLives(platform: ClusterPlatform): Promise<void> {
  const person = await Management.register(platform);
  const lives = [pooledWithSettings, withPods, ownPostgresWithoutRoom].map((life) => life(platform, person));
  lives.push(accountDeleted(platform));
  // One that fails leaves the others to their end.
  for (const life of await Promise.allSettled(lives)) if (life.status === 'rejected') throw life.reason;
}

/** The API looks for retained data of the account in all namespaces. */
async function accountDeleted(platform: ClusterPlatform): Promise<void> {
  const login = { email: 'leaving@example.com', password: 'a long password' };
  const person = await Management.register(platform, login.email, login.password);
  const { token } = await expectStatus<{ token: string }>(person, 200, 'POST', '/auth/login', login);
  const signedIn = Management.withToken(platform, login.email, token);
  await expectStatus(signedIn, 200, 'POST', '/auth/me/delete', { password: login.password });
}

/** Over REST: settings come and go, functions are written. */
async function pooledWithSettings(platform: ClusterPlatform, person: Management): Promise<void> {
  const asked = { name: 'settings', plan: 'free', jwt_secret: 'a secret of the owner, long enough for HS256' };
  const { id } = await expectStatus<ProjectView>(person, 201, 'POST', '/projects', asked);
  const project = await person.untilHealthy(id);
  await person.query(id, TODOS_SQL);
  await usedByTwoPeople(project, platform.network);
  const change = (body: object) => expectStatus(person, 200, 'PATCH', `/projects/${id}`, body);
  for (const value of ['one', 'another']) {
    await change({
      env_vars: { KEY: value },
      github_token: `token-${value}`,
      slack_webhook: `https://hooks.example.com/${value}`,
      webhook_secret: `webhook-secret-${value}`,
    });
  }
  await expectStatus(person, 200, 'GET', `/projects/${id}`);
  await change({ env_vars: null, github_token: null, slack_webhook: null });
  await functions(person, id);
  await rotated(
    platform,
    project.ref,
    { databasePasswords: 1, apiKeys: 1 },
    SECRETS.database,
    SECRETS.database.passwordsRotation,
  );
  await expectStatus(person, 200, 'DELETE', `/projects/${id}`);
  await person.untilGone(id);
}

async function functions(person: Management, id: number): Promise<void> {
  const path = `/projects/${id}/functions`;
  const code = (text: string) => `Deno.serve(() => new Response('${text}'));`;
  const { id: func } = await expectStatus<{ id: number }>(person, 201, 'POST', path, {
    name: 'hello',
    code: code('0'),
  });
  // More than are kept.
  for (let change = 1; change <= 12; change++) {
    await expectStatus(person, 200, 'PATCH', `${path}/${func}`, { code: code(String(change)) });
    await until(`version ${change + 1}`, async () => {
      const versions = await expectStatus<{ version: number }[]>(person, 200, 'GET', `${path}/${func}/versions`);
      return versions.some(({ version }) => version > change) || undefined;
    });
  }
  await expectStatus(person, 200, 'GET', path);
  await expectStatus(person, 200, 'GET', `${path}/${func}`);
  await expectStatus(person, 200, 'DELETE', `${path}/${func}`);
}

/** By kubectl: drift, another plan, suspended, retained. */
async function withPods(platform: ClusterPlatform, person: Management): Promise<void> {
  const { run, apply, healthy, change } = byKubectl(platform, 'lives', person.email);
  await apply('starter');
  await healthy();
  const namespace = namespaceOf('lives');
  for (const child of ['deployment/auth', 'service/rest', 'networkpolicy/default-deny', 'resourcequota/project']) {
    await run('delete', child, '-n', namespace, '--wait=true');
    await until(
      `${child} is back`,
      async () => (await run('get', child, '-n', namespace, '--ignore-not-found')) || undefined,
    );
  }
  await rotated(platform, 'lives', { jwtSecret: 1 }, SECRETS.keys, SECRETS.keys.jwtSecretRotation);
  await change({ suspend: true });
  await run('wait', '--for=jsonpath={.status.phase}=suspended', 'project/lives', WAIT);
  await change({ suspend: false });
  await healthy();
  await change({ plan: 'free' });
  await until('it has no pods', async () => {
    const left = await run('get', 'deployments,services', '-n', namespace, '-o', 'name');
    return left === '' || undefined;
  });
  await run('delete', 'project', 'lives', WAIT);
}

/**
 * A quota of somebody else's keeps its Postgres out for a while: only Events tell why. Then it lives, and its data is
 * retained.
 */
async function ownPostgresWithoutRoom(platform: ClusterPlatform, person: Management): Promise<void> {
  const { run, apply, healthy, change } = byKubectl(platform, 'no-room', person.email);
  const namespace = namespaceOf('no-room');
  await apply('pro');
  await until(
    'its namespace',
    async () => (await run('get', 'namespace', namespace, '--ignore-not-found')) || undefined,
  );
  await run('create', 'quota', 'somebody-elses', '--hard=pods=0', '-n', namespace);
  await run('delete', 'pods', '--all', '-n', namespace);
  // The pods of its services are refused too, which their Deployments tell without Events.
  await until('what is wrong with Postgres is told', async () => {
    const message = await run('get', 'project', 'no-room', '-o', 'jsonpath={.status.message}');
    return /Postgres .* is refused: .*quota/.test(message) || undefined;
  });
  await run('delete', 'quota', 'somebody-elses', '-n', namespace);
  await healthy();
  await change({ suspend: true });
  await run('wait', '--for=jsonpath={.status.phase}=suspended', 'project/no-room', WAIT);
  await change({ suspend: false, deletionPolicy: 'Retain' });
  await healthy();
  await run('delete', 'project', 'no-room', WAIT);
  await apply('pro');
  await healthy();
  await change({ deletionPolicy: 'Delete' });
  await run('delete', 'project', 'no-room', WAIT);
}

/** Until the Secret says of which rotation it is. */
async function rotated(
  platform: ClusterPlatform,
  ref: string,
  rotation: object,
  { name }: { name: string },
  key: string,
): Promise<void> {
  const { run, change } = byKubectl(platform, ref, '');
  await change({ rotation });
  await until(`${name} of ${ref} is another`, async () => {
    return (await run('get', 'secret', name, '-n', namespaceOf(ref), '-o', `jsonpath={.data.${key}}`)) || undefined;
  });
}

function byKubectl({ kubeconfig }: ClusterPlatform, ref: string, owner: string) {
  const run = (...args: string[]) => kubectl(kubeconfig, args);
  return {
    run,
    apply: (plan: Plan) =>
      kubectl(
        kubeconfig,
        ['apply', '-f', '-'],
        JSON.stringify({ apiVersion: API_VERSION, kind: 'Project', metadata: { name: ref }, spec: { owner, plan } }),
      ),
    healthy: () => run('wait', '--for=condition=Ready', `project/${ref}`, WAIT),
    change: (spec: object) => run('patch', 'project', ref, '--type=merge', '-p', JSON.stringify({ spec })),
  };
}

async function expectStatus<T>(person: Management, expected: number, method: string, path: string, body?: unknown) {
  const answer = await person.call<T>(method, path, body);
  if (answer.status === expected) return answer.body;
  throw new Error(`${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
}

/**
 * Leads projects through all their states on a cluster, so that the programs send every kind of request to the
 * Kubernetes API. In: an installed platform. The test of the roles uses it.
 */
import { API_VERSION, type Plan } from '@slipway/crds';
import { namespaceOf, SECRETS } from '@slipway/installation';
import { until } from '@slipway/testing';
import { kubectl } from '../kubectl.js';
import { Management, type ProjectView } from '../management.js';
import { TODOS_SQL, usedByTwoPeople } from '../todos.js';
import { registerAdministrator } from './administrator.js';
import type { ClusterPlatform } from './platform.js';

/** Timeout of a wait: twice the longest wait that was observed on a busy machine. */
const WAIT = '--timeout=300s';
const PATIENCE_MS = 300_000;

export async function leadWholeLives(platform: ClusterPlatform): Promise<void> {
  const person = await Management.register(platform);
  const lives = [pooledWithSettings, withPods, ownPostgresWithoutRoom].map((life) => life(platform, person));
  lives.push(accountDeleted(platform));
  // If one fails, the others still run to their end.
  for (const life of await Promise.allSettled(lives)) {
    if (life.status === 'rejected')
      throw new Error(`${life.reason}\n${await stateOf(platform)}`, { cause: life.reason });
  }
}

/** Returns the state of the cluster that a project may have waited for. */
async function stateOf({ kubeconfig }: ClusterPlatform): Promise<string> {
  const columns = 'NAME:.metadata.name,PHASE:.status.phase,MESSAGE:.status.message';
  const of = (...args: string[]) => kubectl(kubeconfig, args).catch((error: Error) => error.message);
  return [
    await of('get', 'projects', '-o', `custom-columns=${columns}`),
    await of('get', 'pods', '-A', '--field-selector=status.phase=Pending', '--no-headers'),
    (await of('get', 'events', '-A', '--field-selector=type=Warning', '--sort-by=.lastTimestamp', '--no-headers'))
      .split('\n')
      .slice(-10)
      .join('\n'),
  ].join('\n');
}

/** For an account, the API searches all namespaces for retained data. */
async function accountDeleted(platform: ClusterPlatform): Promise<void> {
  const login = { email: 'leaving@example.com', password: 'a long password' };
  const person = await Management.register(platform, login.email, login.password);
  const { token } = await expectStatus<{ token: string }>(person, 200, 'POST', '/auth/login', login);
  const signedIn = Management.withToken(platform, login.email, token);
  await expectStatus(signedIn, 200, 'POST', '/auth/me/delete', { password: login.password });
}

/** A project managed over REST: settings are set and removed, functions are deployed. */
async function pooledWithSettings(platform: ClusterPlatform, person: Management): Promise<void> {
  const request = { name: 'settings', plan: 'free', jwt_secret: 'a secret of the owner, long enough for HS256' };
  const { id } = await expectStatus<ProjectView>(person, 201, 'POST', '/projects', request);
  const project = await person.untilHealthy(id, PATIENCE_MS);
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
  // The first creates the Secret of the settings, and the second changes it.
  for (const jwt_exp of [1800, null])
    await expectStatus(person, 200, 'PATCH', `/projects/${id}/config/auth`, { jwt_exp });
  await functions(person, id);
  await rotated(
    platform,
    project.ref,
    { databasePasswords: 1, apiKeys: 1 },
    SECRETS.database,
    SECRETS.database.passwordsRotation,
  );
  // Only an administrator can do this, because the project belongs to another account by now.
  const administrator = await registerAdministrator(platform);
  const { email } = administrator;
  await expectStatus(administrator, 200, 'POST', `/admin/projects/${project.ref}/owner`, { email });
  await expectStatus(person, 404, 'DELETE', `/projects/${id}`);
  await expectStatus(administrator, 200, 'DELETE', `/projects/${id}`);
  await administrator.untilGone(id);
}

async function functions(person: Management, id: number): Promise<void> {
  const path = `/projects/${id}/functions`;
  const code = (text: string) => `Deno.serve(() => new Response('${text}'));`;
  const { id: func } = await expectStatus<{ id: number }>(person, 201, 'POST', path, {
    name: 'hello',
    code: code('0'),
  });
  // More changes than are stored.
  for (let change = 1; change <= 12; change++) {
    await expectStatus(person, 200, 'PATCH', `${path}/${func}`, { code: code(String(change)) });
    await until(
      async () => {
        const versions = await expectStatus<{ version: number }[]>(person, 200, 'GET', `${path}/${func}/versions`);
        return versions.some(({ version }) => version > change);
      },
      `version ${change + 1}`,
      PATIENCE_MS,
    );
  }
  await expectStatus(person, 200, 'GET', path);
  await expectStatus(person, 200, 'GET', `${path}/${func}`);
  await expectStatus(person, 200, 'DELETE', `${path}/${func}`);
}

/** A project managed with kubectl: drift, another plan, suspended, retained. */
async function withPods(platform: ClusterPlatform, person: Management): Promise<void> {
  const { run, apply, healthy, change } = byKubectl(platform, 'lives', person.email);
  await apply('starter');
  await healthy();
  const namespace = namespaceOf('lives');
  for (const child of ['deployment/auth', 'service/rest', 'networkpolicy/default-deny', 'resourcequota/project']) {
    await run('delete', child, '-n', namespace, '--wait=true');
    await until(() => run('get', child, '-n', namespace, '--ignore-not-found'), `${child} is back`, PATIENCE_MS);
  }
  const [{ id }] = await expectStatus<[{ id: number }]>(person, 200, 'GET', '/projects?name=lives');
  await expectStatus(person, 200, 'GET', `/projects/${id}/logs/auth`);
  await rotated(platform, 'lives', { jwtSecret: 1 }, SECRETS.keys, SECRETS.keys.jwtSecretRotation);
  await change({ suspend: true });
  await run('wait', '--for=jsonpath={.status.phase}=suspended', 'project/lives', WAIT);
  await change({ suspend: false });
  await healthy();
  await change({ plan: 'free' });
  await until(
    async () => {
      const left = await run('get', 'deployments,services', '-n', namespace, '-o', 'name');
      return left === '';
    },
    'it has no pods',
    PATIENCE_MS,
  );
  await run('delete', 'project', 'lives', WAIT);
}

/**
 * A foreign quota blocks the project's Postgres for a while, which only Events explain. Then Postgres starts, and its
 * data is retained.
 */
async function ownPostgresWithoutRoom(platform: ClusterPlatform, person: Management): Promise<void> {
  const { run, apply, healthy, change } = byKubectl(platform, 'no-room', person.email);
  const namespace = namespaceOf('no-room');
  await apply('pro');
  await until(() => run('get', 'namespace', namespace, '--ignore-not-found'), 'its namespace', PATIENCE_MS);
  await run('create', 'quota', 'somebody-elses', '--hard=pods=0', '-n', namespace);
  await run('delete', 'pods', '--all', '-n', namespace);
  // The pods of its services are refused too. Their Deployments report that without Events.
  await until(
    async () => {
      const message = await run('get', 'project', 'no-room', '-o', 'jsonpath={.status.message}');
      return /Postgres .* is refused: .*quota/.test(message);
    },
    'the refusal of Postgres in the status',
    PATIENCE_MS,
  );
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

/** Waits until the Secret names the rotation. */
async function rotated(
  platform: ClusterPlatform,
  ref: string,
  rotation: object,
  { name }: { name: string },
  key: string,
): Promise<void> {
  const { run, change } = byKubectl(platform, ref, '');
  await change({ rotation });
  await until(
    () => run('get', 'secret', name, '-n', namespaceOf(ref), '-o', `jsonpath={.data.${key}}`),
    `${name} of ${ref} is another`,
    PATIENCE_MS,
  );
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

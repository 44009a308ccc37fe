/**
 * The whole path of a person from an account to a deleted project, through the public addresses: over REST, and by
 * kubectl alone. One suite, for every platform there is: one machine and a cluster.
 */
import { API_VERSION, namespaceOf, type Plan, SECRETS } from '@slipway/crds';
import pg from 'pg';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { stringify } from 'yaml';
import { kubectl, kubectlIsThere } from './kubectl.js';
import { databaseObjectsOf } from './leftovers.js';
import { Management, type ProjectView } from './management.js';
import { namespacesOfProjects } from './namespaces.js';
import type { Platform } from './platform.js';
import { type AppAddress, TODOS_SQL, usedByTwoPeople } from './todos.js';
import { until } from './until.js';

const WAIT = '--timeout=180s';

/** Differences between projects of a plan that a walk should see. */
export interface Walked {
  plan: Plan;
  /** In a test's name: how projects of the plan run here. */
  how: string;
  /** Looks at the running project where no client can. */
  observed?(ref: string): Promise<void>;
  /** Looks for what is left of the deleted one, beside its database and namespace. */
  gone?(ref: string): Promise<void>;
}

/** `platform` is asked when the tests run. */
export function walk(test: Test, platform: () => Platform, walked: Walked): void {
  // Without kubectl these count as skipped.
  const withKubectl = kubectlIsThere ? test : test.skip;

  test(`a person registers, creates a project ${walked.how}, an app reads, writes and listens under row-level security, and nothing is left of the deleted project`, async () => {
    const person = await Management.register(platform());
    const created = await person.createProject('walked', walked.plan);
    const project = await person.untilHealthy(created.id);
    await person.query(project.id, TODOS_SQL);
    await usedByTwoPeople(project, platform().network);
    await walked.observed?.(project.ref);

    const deleted = await person.call('DELETE', `/projects/${project.id}`);
    assert.is(deleted.status, 200);
    await person.untilGone(project.id);
    await nothingIsLeft(platform(), walked, project.ref);
  });

  withKubectl(
    `a Project ${walked.how} applied with kubectl is used by what kubectl tells, shows in REST, and is gone after kubectl delete`,
    async () => {
      const { kubeconfig, network } = platform();
      const person = await Management.register(platform());
      const ref = `applied-${walked.plan}`;
      await kubectl(kubeconfig, ['apply', '-f', '-'], manifestOf(ref, person.email, walked.plan));
      await kubectl(kubeconfig, ['wait', '--for=condition=Ready', `project/${ref}`, WAIT]);
      const { address, databaseUrl } = await toldByKubectl(kubeconfig, ref);
      await runSql(await network.postgres(databaseUrl), TODOS_SQL);
      await usedByTwoPeople(address, network);

      const shown = await shownInRest(person, ref);
      assert.is(shown.project_url, address.project_url);
      const row = (await kubectl(kubeconfig, ['get', 'projects']))
        .split('\n')
        .find((line) => line.startsWith(`${ref} `));
      assert.match(row ?? '', /healthy/);
      assert.ok(row?.includes(address.project_url), row);

      await kubectl(kubeconfig, ['delete', 'project', ref, WAIT]);
      await person.untilGone(shown.id);
      await nothingIsLeft(platform(), walked, ref);
    },
  );
}

const manifestOf = (ref: string, owner: string, plan: Plan) =>
  stringify({ apiVersion: API_VERSION, kind: 'Project', metadata: { name: ref }, spec: { owner, plan } });

async function toldByKubectl(kubeconfig: string, ref: string): Promise<{ address: AppAddress; databaseUrl: string }> {
  const told = (kind: string, name: string, field: string) =>
    kubectl(kubeconfig, ['get', kind, name, '-n', namespaceOf(ref), '-o', `jsonpath={${field}}`]);
  const secret = async (name: string, key: string) =>
    Buffer.from(await told('secret', name, `.data.${key}`), 'base64').toString();
  const { keys, database } = SECRETS;
  return {
    address: {
      project_url: await told('project', ref, '.status.url'),
      anon_key: await secret(keys.name, keys.anonKey),
    },
    databaseUrl: await secret(database.name, database.url),
  };
}

async function runSql(login: pg.ClientConfig, sql: string): Promise<void> {
  const client = new pg.Client(login);
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

const shownInRest = (person: Management, ref: string): Promise<ProjectView> =>
  until('the project shows in REST', async () => {
    const { body } = await person.call<ProjectView[]>('GET', '/projects');
    const found = body.find((project) => project.ref === ref);
    return found && (await person.call<ProjectView>('GET', `/projects/${found.id}`)).body;
  });

async function nothingIsLeft(platform: Platform, walked: Walked, ref: string): Promise<void> {
  assert.equal(await databaseObjectsOf(platform, ref), []);
  await until(`the namespace of ${ref} is gone`, async () => {
    const names = await namespacesOfProjects(platform.kubeconfig);
    return !names.includes(namespaceOf(ref)) || undefined;
  });
  await walked.gone?.(ref);
}

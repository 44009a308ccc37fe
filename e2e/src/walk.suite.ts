/**
 * Tests the whole path of a person from an account to a deleted project, through public addresses: over REST, and with
 * kubectl only. One machine and a cluster run the same suite.
 */
import { API_VERSION, type Plan } from '@slipway/crds';
import { namespaceOf, SECRETS } from '@slipway/installation';
import { until } from '@slipway/testing';
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

const WAIT = '--timeout=180s';

/** Differences between projects of a plan that a walk checks. */
export interface Walked {
  plan: Plan;
  /** Describes, in a test's name, how projects of the plan run here. */
  how: string;
  /** Checks the running project where no client can. */
  observed?(ref: string): Promise<void>;
  /** Checks for leftovers of the deleted project, besides its database and namespace. */
  gone?(ref: string): Promise<void>;
}

/** `platform` is called when the tests run. */
export function walk(test: Test, platform: () => Platform, walked: Walked): void {
  // Without kubectl these tests count as skipped.
  const withKubectl = kubectlIsThere ? test : test.skip;

  test(`a person registers, runs an app in a project ${walked.how}, and deletes the project completely`, async () => {
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
    `a Project ${walked.how} applied with kubectl works, appears in REST, and is removed by kubectl delete`,
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
  const fieldOf = (kind: string, name: string, field: string) =>
    kubectl(kubeconfig, ['get', kind, name, '-n', namespaceOf(ref), '-o', `jsonpath={${field}}`]);
  const secret = async (name: string, key: string) =>
    Buffer.from(await fieldOf('secret', name, `.data.${key}`), 'base64').toString();
  const { keys, database } = SECRETS;
  return {
    address: {
      project_url: await fieldOf('project', ref, '.status.url'),
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
  until(async () => {
    const { body } = await person.call<ProjectView[]>('GET', '/projects');
    const found = body.find((project) => project.ref === ref);
    return found && (await person.call<ProjectView>('GET', `/projects/${found.id}`)).body;
  }, 'the project shows in REST');

async function nothingIsLeft(platform: Platform, walked: Walked, ref: string): Promise<void> {
  assert.equal(await databaseObjectsOf(platform, ref), []);
  await until(async () => {
    const names = await namespacesOfProjects(platform.kubeconfig);
    return !names.includes(namespaceOf(ref));
  }, `the namespace of ${ref} is deleted`);
  await walked.gone?.(ref);
}

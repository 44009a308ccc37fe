/**
 * Tests an operator, run as a program, that is killed at one point after the other. The next operator converges and
 * leaves nothing behind.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Project } from '@slipway/crds';
import { LABEL_PROJECT } from '@slipway/installation';
import { isNotFound, type KubeClient, type KubeObject } from '@slipway/kubernetes';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { PROJECT_INVENTORY } from '@slipway/project-database/inventory.testing.js';
import { until } from '@slipway/testing';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { PROJECTS, projectPath } from './controllers/project/resources.js';
import { SPARES } from './engines/machine/databases.js';
import { adminUrl, deleteAndWait, startTestKubernetes } from './testing.js';

const run = `k${process.pid.toString(36)}`;
const refOf = (index: number) => `${run}-${index}`;
const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));
/** Approximate number of points in a run that makes the spare databases, makes a project and removes another one. */
const POINTS = 48;

const create = (client: KubeClient, index: number) =>
  client.create<KubeObject & { spec: object }>(PROJECTS, {
    apiVersion: 'slipway.dev/v1alpha1',
    kind: 'Project',
    metadata: { name: refOf(index) },
    spec: { owner: 'killed@example.com', name: refOf(index) },
  });

const projectsOf = async (client: KubeClient) =>
  (await client.get<{ items: Project[] }>(PROJECTS)).items.filter(({ metadata }) =>
    metadata.name.startsWith(`${run}-`),
  );

/** True when every remaining project is healthy, and every deleted one is removed. */
const isSettled = async (client: KubeClient) =>
  (await projectsOf(client)).every(
    ({ metadata, status }) => !metadata.deletionTimestamp && status?.phase === 'healthy',
  );

const hasEnded = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null;

async function namesIn(postgres: TestPostgres, sql: string): Promise<string[]> {
  const client = new pg.Client(postgres.admin());
  await client.connect();
  const { rows } = await client.query(sql);
  await client.end();
  return rows.map((row) => Object.values(row)[0] as string).sort();
}

async function assertNothingLeaked(client: KubeClient, postgres: TestPostgres): Promise<void> {
  const refs = (await projectsOf(client)).map(({ metadata }) => metadata.name);
  const databases = () =>
    namesIn(postgres, `SELECT datname FROM pg_database WHERE datname !~ '^(postgres|template[01])$'`);
  const all = await until(async () => {
    const names = await databases();
    const spares = names.filter((name) => name.startsWith('slipway-spare-'));
    return spares.length === SPARES && !names.some((name) => name.includes('building')) ? names : undefined;
  }, 'the spares to be full');
  assert.is(all.length, refs.length + SPARES + 1, 'and one template');
  assert.equal(await namesIn(postgres, PROJECT_INVENTORY.databases), refs.map((ref) => `p-${ref}`).sort());
  assert.equal(await namesIn(postgres, PROJECT_INVENTORY.records), [...refs].sort());
  const logins = ['postgres', 'authenticator', 'auth_admin'];
  assert.equal(
    await namesIn(postgres, PROJECT_INVENTORY.roles),
    refs.flatMap((ref) => logins.map((role) => `${role}.${ref}`)).sort(),
  );
  const spares = all.flatMap((name) => name.match(/^slipway-spare-(.*)$/)?.slice(1) ?? []);
  assert.equal(
    await namesIn(postgres, `SELECT rolname FROM pg_roles WHERE rolname LIKE '%.spare\\_%'`),
    spares.flatMap((id) => logins.map((role) => `${role}.spare_${id}`)).sort(),
  );
  const query = { labelSelector: LABEL_PROJECT };
  const namespaces = await client.get<{ items: KubeObject[] }>('/api/v1/namespaces', query);
  const ours = namespaces.items.map(({ metadata }) => metadata.name).filter((name) => name.startsWith(`p-${run}-`));
  assert.equal(ours.sort(), refs.map((ref) => `p-${ref}`).sort());
}

test('an operator that is killed at each point in turn converges and leaves nothing behind', async () => {
  const kubernetes = await startTestKubernetes();
  const postgres = await startTestPostgres();
  const { client } = kubernetes;
  // Replaces the data plane: this test does not cover whether services answer.
  const dataplane = createServer((_, response) => response.end('{}'));
  await new Promise<void>((resolve) => dataplane.listen(0, '127.0.0.1', resolve));
  const start = (killAt: number): ChildProcess =>
    spawn(process.execPath, ['--import', here('./kill-at.testing.js'), here('./main.js')], {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: {
        ...process.env,
        KILL_AT: String(killAt),
        KUBECONFIG: kubernetes.kubeconfig,
        SLIPWAY_PUBLIC_URL: 'http://localhost:4000',
        SLIPWAY_LISTEN: path.join(tmpdir(), `slipway-${run}.sock`),
        SLIPWAY_ADMIN_DATABASE_URL: adminUrl(postgres),
        SLIPWAY_DATABASE_PUBLIC_ADDRESS: `127.0.0.1:${postgres.port}`,
        SLIPWAY_DATAPLANE_URL: `http://127.0.0.1:${(dataplane.address() as AddressInfo).port}`,
        SLIPWAY_LOG_LEVEL: 'silent',
      },
    });
  const stop = async (child: ChildProcess) => {
    if (hasEnded(child)) return;
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    await exited;
  };
  let kills = 0;
  try {
    for (let index = 1; index <= POINTS; index++) {
      await create(client, index);
      if (index > 2) await client.delete(projectPath(refOf(index - 2)));
      const child = start(index);
      // An operator that has no work left before its point is stopped as usual.
      await until(async () => hasEnded(child) || (await isSettled(client)), `run ${index} to be killed or to settle`);
      if (child.signalCode === 'SIGKILL') kills += 1;
      assert.is(child.exitCode, null, 'killed, not ended by itself');
      await stop(child);
    }
    assert.ok(kills > POINTS / 2, `only ${kills} kills`);
    const last = start(0);
    await until(() => isSettled(client), 'all projects to be healthy or deleted');
    await assertNothingLeaked(client, postgres);
    for (const { metadata } of await projectsOf(client)) await deleteAndWait(client, projectPath(metadata.name));
    await assertNothingLeaked(client, postgres);
    await stop(last);
  } finally {
    await Promise.all(
      (await projectsOf(client)).map(({ metadata }) =>
        client.patch(projectPath(metadata.name), { metadata: { finalizers: [] } }).catch((error) => {
          if (!isNotFound(error)) throw error;
        }),
      ),
    );
    dataplane.closeAllConnections();
    dataplane.close();
    await kubernetes.close();
    await postgres.close();
  }
});

test.run();

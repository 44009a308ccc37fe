/** Tests the passwords of a database that would have to move, with a real Kubernetes API and a real Postgres. */

import { API_VERSION, type Build, type Project } from '@slipway/crds';
import { namespaceOf, SECRETS } from '@slipway/installation';
import { Informer } from '@slipway/kubernetes';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type Capabilities,
  DATABASE_MOVE_UNSUPPORTED,
  type DatabaseRequest,
  type EngineOutcome,
} from '../../../capabilities/index.js';
import { MachineDatabases } from '../../../engines/machine/databases.js';
import { EventRecorder } from '../../../runtime/events.js';
import { Metrics } from '../../../runtime/metrics.js';
import { StatusWriter } from '../../../runtime/status-writer.js';
import { adminUrl, silentLog, startTestKubernetes, type TestKubernetes } from '../../../testing.js';
import { BUILDS } from '../../build/resources.js';
import { loginWorks } from '../operator.testing.js';
import { NAMESPACES, PROJECTS, plainText, type Secret, secretsPath } from '../resources.js';
import { ensureDatabase } from './database.js';

interface Context {
  kubernetes: TestKubernetes;
  postgres: TestPostgres;
  databases: MachineDatabases;
}

const REF = `t${process.pid.toString(36)}-elsewhere`;
const test = suite<Context>('passwords of a database');

/** Behaves like a cluster after a change of plan: the database is as requested, but in another place. */
class Elsewhere extends MachineDatabases {
  isElsewhere = false;

  override async ensure(request: DatabaseRequest): Promise<EngineOutcome> {
    const outcome = await super.ensure(request);
    if (!this.isElsewhere || outcome.state !== 'ready') return outcome;
    return { state: 'failed', reason: DATABASE_MOVE_UNSUPPORTED, message: 'it is not moved', retry: false };
  }
}

test.before(async (context) => {
  context.kubernetes = await startTestKubernetes();
  context.postgres = await startTestPostgres();
});
test.after(async ({ kubernetes, postgres, databases }) => {
  await databases?.close();
  await kubernetes.client.delete(`${NAMESPACES}/${namespaceOf(REF)}`).catch(() => {});
  await kubernetes.close();
  await postgres.close();
});

test('rotated passwords are shown even if a move is rejected, because Postgres accepts no others', async (context) => {
  const { kubernetes, postgres } = context;
  const { client } = kubernetes;
  const databases = new Elsewhere({
    adminDatabaseUrl: adminUrl(postgres),
    databasePublicAddress: `127.0.0.1:${postgres.port}`,
    log: silentLog,
  });
  context.databases = databases;
  await client.create<object>(NAMESPACES, {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: namespaceOf(REF) },
  });
  const shared = { client, metrics: new Metrics(), log: silentLog };
  const projects = new Informer<Project>({ ...shared, resource: 'projects', path: PROJECTS });
  const events = new EventRecorder({ client, component: 'test', log: silentLog });
  const deps = {
    client,
    capabilities: { databases } as unknown as Capabilities,
    types: {},
    places: { publicUrl: 'http://localhost:4000' },
    projects,
    statuses: new StatusWriter<Project>({ client, events, cache: projects, pathOf: () => '' }),
    namespaces: new Informer({ ...shared, resource: 'namespaces', path: NAMESPACES }),
    secrets: new Informer<Secret>({ ...shared, resource: 'secrets', path: '/api/v1/secrets' }),
    copies: new Informer<Secret>({ ...shared, resource: 'secrets', path: '/api/v1/secrets' }),
    builds: new Informer<Build>({ ...shared, resource: 'builds', path: BUILDS }),
    events,
    log: silentLog,
    projectUrl: (ref: string) => ref,
    now: () => new Date(),
  };
  const ensure = (databasePasswords: number) => {
    const metadata = { name: REF, uid: 'uid' };
    const spec = { owner: 'owner@example.com', rotation: { databasePasswords } };
    const project = { apiVersion: API_VERSION, kind: 'Project', metadata, spec } as Project;
    return ensureDatabase({ deps, project, ref: REF }, databases);
  };
  const shown = async () =>
    plainText(await client.get<Secret>(`${secretsPath(REF)}/${SECRETS.database.name}`))[SECRETS.database.url] as string;

  assert.is((await ensure(1)).state, 'ready');
  const before = await shown();
  databases.isElsewhere = true;
  const outcome = await ensure(2);
  assert.is(outcome.state === 'failed' && outcome.reason, DATABASE_MOVE_UNSUPPORTED);
  assert.is.not(await shown(), before);
  assert.ok(await loginWorks(await shown()));
  assert.not(await loginWorks(before));
  await deps.events.close();
});

test.run();

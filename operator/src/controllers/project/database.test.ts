/**
 * The database's passwords, on a real Kubernetes API and a real Postgres, where the engine would have the database
 * elsewhere.
 */
import { API_VERSION, namespaceOf, type Project, SECRETS } from '@slipway/crds';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { EmbeddedEngine } from '../../engines/embedded/engine.js';
import { DATABASE_MOVE_UNSUPPORTED, type DatabaseRequest, type EngineOutcome } from '../../engines/engine.js';
import { EventRecorder } from '../../runtime/events.js';
import { Informer } from '../../runtime/informer.js';
import { Metrics } from '../../runtime/metrics.js';
import { StatusWriter } from '../../runtime/status-writer.js';
import { adminUrl, silentLog, startTestKubernetes, type TestKubernetes } from '../../testing.js';
import { ensureDatabase } from './database.js';
import { loginWorks } from './operator.testing.js';
import { NAMESPACES, PROJECTS, plainText, type Secret, secretsPath } from './resources.js';

interface Context {
  kubernetes: TestKubernetes;
  postgres: TestPostgres;
  engine: EmbeddedEngine;
}

const REF = `t${process.pid.toString(36)}-elsewhere`;
const test = suite<Context>('passwords of a database');

/** Behaves like a cluster's engine after a change of plan: the database is as requested, but in another place. */
class Elsewhere extends EmbeddedEngine {
  isElsewhere = false;

  override async ensureDatabase(request: DatabaseRequest): Promise<EngineOutcome> {
    const outcome = await super.ensureDatabase(request);
    if (!this.isElsewhere || outcome.state !== 'ready') return outcome;
    return { state: 'failed', reason: DATABASE_MOVE_UNSUPPORTED, message: 'it is not moved', retry: false };
  }
}

test.before(async (context) => {
  context.kubernetes = await startTestKubernetes();
  context.postgres = await startTestPostgres();
});
test.after(async ({ kubernetes, postgres, engine }) => {
  await engine?.close();
  await kubernetes.client.delete(`${NAMESPACES}/${namespaceOf(REF)}`).catch(() => {});
  await kubernetes.close();
  await postgres.close();
});

test('those that are rotated where a move is refused are shown, as Postgres takes no others any more', async (context) => {
  const { kubernetes, postgres } = context;
  const { client } = kubernetes;
  const engine = new Elsewhere({
    adminDatabaseUrl: adminUrl(postgres),
    databasePublicAddress: `127.0.0.1:${postgres.port}`,
    dataplaneUrl: 'http://127.0.0.1:1',
    projectUrl: (ref) => `http://localhost:4000/p/${ref}`,
    log: silentLog,
  });
  context.engine = engine;
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
    engine,
    projects,
    statuses: new StatusWriter<Project>({ client, events, cache: projects, pathOf: () => '' }),
    namespaces: new Informer({ ...shared, resource: 'namespaces', path: NAMESPACES }),
    secrets: new Informer<Secret>({ ...shared, resource: 'secrets', path: '/api/v1/secrets' }),
    copies: new Informer<Secret>({ ...shared, resource: 'secrets', path: '/api/v1/secrets' }),
    events,
    log: silentLog,
    projectUrl: (ref: string) => ref,
    now: () => new Date(),
  };
  const ensure = (databasePasswords: number) => {
    const metadata = { name: REF, uid: 'uid' };
    const spec = { owner: 'owner@example.com', rotation: { databasePasswords } };
    const project = { apiVersion: API_VERSION, kind: 'Project', metadata, spec } as Project;
    return ensureDatabase({ deps, project, ref: REF, found: {} });
  };
  const shown = async () =>
    plainText(await client.get<Secret>(`${secretsPath(REF)}/${SECRETS.database.name}`))[SECRETS.database.url] as string;

  assert.is((await ensure(1)).state, 'ready');
  const before = await shown();
  engine.isElsewhere = true;
  const outcome = await ensure(2);
  assert.is(outcome.state === 'failed' && outcome.reason, DATABASE_MOVE_UNSUPPORTED);
  assert.is.not(await shown(), before);
  assert.ok(await loginWorks(await shown()));
  assert.not(await loginWorks(before));
  await deps.events.close();
});

test.run();

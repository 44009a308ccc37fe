/** Tests which project an app is linked to. The Secrets are in a real Kubernetes API. */
import type { Project } from '@slipway/crds';
import { LABEL_PROJECT, namespaceOf, SECRETS } from '@slipway/installation';
import type { KubeObject } from '@slipway/kubernetes';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Apps } from '../../../capabilities/index.js';
import { startTestKubernetes, type TestKubernetes } from '../../../testing.js';
import type { Context } from '../context.js';
import { LINK_VARIABLES, type Linking, linkOf } from './database-link.js';

const test = suite<{ kubernetes: TestKubernetes }>('links of apps');
test.before(async (world) => {
  world.kubernetes = await startTestKubernetes();
  const { client } = world.kubernetes;
  for (const ref of [DATABASE, 'unready']) {
    const name = namespaceOf(ref);
    await client.create<KubeObject>('/api/v1/namespaces', { metadata: { name, labels: { [LABEL_PROJECT]: ref } } });
  }
  const { keys, database } = SECRETS;
  for (const [name, values] of [
    [keys.name, { [keys.anonKey]: 'anon', [keys.serviceRoleKey]: 'service', [keys.jwtSecret]: 'signs' }],
    [database.name, { [database.url]: 'postgresql://postgres.id:p%40ss@127.0.0.1:5432/p-id' }],
  ] as const) {
    const secret = { metadata: { name }, stringData: values };
    await client.create<KubeObject>(`/api/v1/namespaces/${namespaceOf(DATABASE)}/secrets`, secret);
  }
});
test.after(async ({ kubernetes }) => {
  for (const ref of [DATABASE, 'unready']) await kubernetes.client.delete(`/api/v1/namespaces/${namespaceOf(ref)}`);
  await kubernetes.close();
});

const DATABASE = `link-${process.pid.toString(36)}`;
const OWNER = 'al@example.com';

const projectOf = (name: string, spec: Partial<Project['spec']>, metadata = {}): Project =>
  ({ metadata: { name, ...metadata }, spec: { owner: OWNER, ...spec } }) as Project;

/** Links an app to a project. `linked` replaces the project; null: there is none. */
function link(
  { client }: TestKubernetes,
  linked: Project | null = projectOf(DATABASE, {}),
  app: Partial<Project['spec']> = {},
  apps: Pick<Apps, 'linkPorts'> = { linkPorts: { services: 4000, database: 4002 } },
): Promise<Linking> {
  const databaseProject = linked?.metadata.name ?? DATABASE;
  const project = projectOf('app', { type: 'app', app: { databaseProject }, ...app });
  const deps = {
    client,
    places: { publicUrl: 'http://localhost:4000' },
    projects: { get: (name: string) => (name === linked?.metadata.name ? linked : undefined) },
    projectUrl: (ref: string) => `http://localhost:4000/p/${ref}`,
  };
  return linkOf({ deps, project, ref: 'app' } as unknown as Context, apps as Apps);
}

test('a linked app gets the URL, the keys and the database of the project', async ({ kubernetes }) => {
  const { outcome, link: made, variables } = await link(kubernetes);
  const host = `${DATABASE}.localhost`;
  assert.equal([outcome.state, made], ['ready', { project: DATABASE, host }]);
  assert.equal(Object.keys(variables), [...LINK_VARIABLES]);
  assert.equal(variables, {
    SUPABASE_URL: `http://${host}:4000`,
    SUPABASE_PUBLIC_URL: `http://localhost:4000/p/${DATABASE}`,
    SUPABASE_ANON_KEY: 'anon',
    SUPABASE_SERVICE_ROLE_KEY: 'service',
    DATABASE_URL: `postgresql://postgres.id:p%40ss@${host}:4002/p-id`,
  });
});

test('the letters of an owner may differ in case', async ({ kubernetes }) => {
  assert.ok((await link(kubernetes, projectOf(DATABASE, { owner: 'Al@Example.com' }))).link);
});

test('an app without the setting, and a suspended one, have no link', async ({ kubernetes }) => {
  for (const app of [{ app: {} }, { suspend: true }, { suspendedByOwner: true }]) {
    const { outcome, link: made, variables } = await link(kubernetes, projectOf(DATABASE, {}), app);
    assert.equal([outcome.state, made, variables], ['ready', undefined, {}], JSON.stringify(app));
  }
});

test('a project that the app may not use is refused, and none of its values are given', async ({ kubernetes }) => {
  const cases: [Project | null, RegExp][] = [
    [null, /the owner of the app has no project link-/],
    [projectOf(DATABASE, { owner: 'bo@example.com' }), /the owner of the app has no project link-/],
    [projectOf(DATABASE, {}, { deletionTimestamp: '2026-01-01T00:00:00Z' }), /the owner of the app has no project/],
    [projectOf(DATABASE, { suspend: true }), /is suspended/],
    [projectOf(DATABASE, { type: 'frontend' }), /is frontend, and has no shared database/],
    [projectOf(DATABASE, { type: 'dedicated' }), /is dedicated, and has no shared database/],
  ];
  for (const [linked, why] of cases) {
    const { outcome, link: made, variables } = await link(kubernetes, linked);
    assert.equal([made, variables], [undefined, {}], String(why));
    assert.ok(outcome.state === 'failed' && outcome.reason === 'LinkRefused');
    assert.match(outcome.message, why);
  }
});

test('an app waits for the keys of a project that has none yet', async ({ kubernetes }) => {
  const { outcome, link: made } = await link(kubernetes, projectOf('unready', {}));
  assert.equal([outcome.state, made], ['progressing', undefined]);
});

test('a platform without an IPv4 address links no app', async ({ kubernetes }) => {
  const { outcome } = await link(kubernetes, projectOf(DATABASE, {}), {}, { linkPorts: undefined });
  assert.is(outcome.state, 'failed');
});

test.run();

/**
 * The state that an upgrade must preserve: accounts, tokens and projects in every stage, each with data. `writeState`
 * makes it on a running platform using only public interfaces, so that any release can write it. `checkState` checks
 * all of it.
 */

import { createHash } from 'node:crypto';
import { API_VERSION, GROUP, type Project, VERSION } from '@slipway/crds';
import { isNotFound } from '@slipway/kubernetes';
import { withClient } from '@slipway/kubernetes/testing.js';
import { until } from '@slipway/testing';
import pg from 'pg';
import * as assert from 'uvu/assert';
import { Management, type ProjectView } from '../management.js';
import type { Platform, RunningPlatform } from '../platform.js';
import { clientOf, heardBy, TODOS_SQL } from '../todos.js';
import { checkSite, type WrittenSite, writeSite } from './written-site.js';

/** The services that a platform must open for this state, as environment variables of its start. */
export const ENVIRONMENT = { SLIPWAY_SERVICES_SHARED: 'storage,functions' };

const PROJECTS = `/apis/${GROUP}/${VERSION}/projects`;
const ACCOUNT = { email: 'ann@example.com', password: 'a long password' };
const APP_USER = { email: 'bob@example.com', password: 'a password of the app' };
const VARIABLES = { GREETING: 'hello from before', EMPTY: '' };
const FUNCTION = { name: 'greet', code: "Deno.serve(() => new Response(Deno.env.get('GREETING')));" };
const OBJECT = { bucket: 'papers', path: 'folder/a file.txt', text: 'kept content' };

/** A project's credentials under the release that wrote the state. */
type Credentials = Pick<ProjectView, 'id' | 'ref' | 'anon_key' | 'service_role_key' | 'db_url'>;

export interface WrittenState {
  account: typeof ACCOUNT;
  token: string;
  projects: Record<'healthy' | 'suspended' | 'rotating' | 'applied', Credentials>;
  /** A deleted project whose database is retained. */
  retained: { ref: string; owner: string };
  /** A refresh token of the app's user. */
  refreshToken: string;
  functionId: number;
  /** Present if a build could run. */
  site?: WrittenSite;
}

/** `port` is only for a home, which a release may open at another port. */
type Reopened = Platform & Partial<Pick<RunningPlatform, 'port'>>;

/** `repository` is the URL that a frontend project is built from. */
export async function writeState(platform: Platform, repository?: string): Promise<WrittenState> {
  const person = await Management.register(platform, ACCOUNT.email, ACCOUNT.password);
  const healthy = await projectWithRow(person, 'healthy-one');
  const refreshToken = await signUp(platform, healthy);
  await putObject(platform, healthy);
  const functionId = await deployFunction(person, healthy.id);
  const suspended = await projectWithRow(person, 'suspended-one');
  await suspend(platform, person, suspended);
  const rotating = await projectWithRow(person, 'rotating-one');
  await suspend(platform, person, rotating);
  await change(platform, rotating.ref, { rotation: { jwtSecret: 1 } });
  await until(async () => {
    const { status } = await read(platform, rotating.ref);
    return status?.conditions?.some(({ type, reason }) => type === 'CredentialsCurrent' && reason === 'Rotating');
  }, 'the rotation has begun');
  const retained = await retain(platform, person);
  const applied = await apply(platform, person, 'applied-one');
  await person.query(applied.id, `create table kept as select 'applied-one' as name`);
  const projects = { healthy, suspended, rotating, applied };
  const site = repository === undefined ? {} : { site: await writeSite(person, repository) };
  return { account: ACCOUNT, token: person.token, projects, retained, refreshToken, functionId, ...site };
}

async function projectWithRow(person: Management, name: string): Promise<ProjectView> {
  const project = await person.untilHealthy((await person.createProject(name)).id);
  await person.query(project.id, `${TODOS_SQL} create table kept as select '${name}' as name`);
  const { status, body } = await person.call('PATCH', `/projects/${project.id}`, { env_vars: VARIABLES });
  assert.is(status, 200, JSON.stringify(body));
  return project;
}

async function signUp(platform: Platform, project: ProjectView): Promise<string> {
  const client = clientOf(project, platform.network);
  const { data, error } = await client.auth.signUp(APP_USER);
  assert.is(error, null);
  assert.is((await client.from('todos').insert({ task: 'from before' })).error, null);
  return data.session?.refresh_token as string;
}

async function putObject({ network: { fetch } }: Platform, project: ProjectView): Promise<void> {
  const url = `${project.project_url}/storage/v1`;
  const headers = { apikey: project.service_role_key, authorization: `Bearer ${project.service_role_key}` };
  const made = await fetch(`${url}/bucket`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ id: OBJECT.bucket, name: OBJECT.bucket }),
  });
  assert.is(made.status, 200, await made.text());
  const put = await fetch(`${url}/object/${OBJECT.bucket}/${encodeURI(OBJECT.path)}`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'text/plain' },
    body: OBJECT.text,
  });
  assert.is(put.status, 200, await put.text());
}

async function deployFunction(person: Management, projectId: number): Promise<number> {
  const path = `/projects/${projectId}/functions`;
  const made = await person.call<{ id: number }>('POST', path, FUNCTION);
  assert.is(made.status, 201, JSON.stringify(made.body));
  const deployed = await person.call('POST', `${path}/${made.body.id}/deploy`);
  assert.is(deployed.status, 200, JSON.stringify(deployed.body));
  return made.body.id;
}

async function suspend(platform: Platform, person: Management, project: ProjectView): Promise<void> {
  await change(platform, project.ref, { suspend: true });
  await until(async () => {
    const { body } = await person.call<{ status: string }>('GET', `/projects/${project.id}/status`);
    return body.status === 'suspended';
  }, 'it is suspended');
}

async function retain(platform: Platform, person: Management): Promise<WrittenState['retained']> {
  const project = await apply(platform, person, 'retained-one');
  await person.query(project.id, `create table kept as select 'retained-one' as name`);
  await change(platform, project.ref, { deletionPolicy: 'Retain' });
  const deleted = await person.call('DELETE', `/projects/${project.id}`);
  assert.is(deleted.status, 200, JSON.stringify(deleted.body));
  await until(async () => (await find(platform, project.ref)) === undefined, 'the Project is deleted');
  return { ref: project.ref, owner: person.email };
}

/** Applies a Project for an account, as kubectl does, and returns the account's view of it. */
async function apply(platform: Platform, person: Management, name: string): Promise<ProjectView> {
  const body = { apiVersion: API_VERSION, kind: 'Project', metadata: { name }, spec: { owner: person.email } };
  await withClient(platform.kubeconfig, (client) => client.create<object>(PROJECTS, body));
  const id = await until(async () => {
    const { body } = await person.call<ProjectView[]>('GET', '/projects');
    return body.find(({ ref }) => ref === name)?.id;
  }, `${name} is listed`);
  return await person.untilHealthy(id);
}

export async function checkState(platform: Reopened, state: WrittenState): Promise<void> {
  const person = await checkAccount(platform, state);
  await checkHealthy(platform, person, state);
  await checkSuspended(platform, person, state);
  await checkRotating(platform, person, state);
  await checkApplied(platform, person, state);
  await checkRetained(platform, person, state);
  if (state.site) await checkSite(person, state.site);
  const created = await person.untilHealthy((await person.createProject('a-new-one')).id);
  assert.is(created.status, 'healthy');
}

async function checkAccount(platform: Reopened, { account, token }: WrittenState): Promise<Management> {
  const login = await platform.network.fetch(`${platform.url}/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(account),
  });
  assert.is(login.status, 200, 'the account can log in');
  const person = Management.withToken(platform, account.email, token);
  assert.is((await person.call('GET', '/auth/me')).status, 200, 'the personal access token works');
  return person;
}

async function checkHealthy(platform: Reopened, person: Management, state: WrittenState): Promise<void> {
  const { healthy } = state.projects;
  const found = await person.untilHealthy(healthy.id);
  assertSameKeys(found, healthy);
  await assertConnects(platform, person, healthy, 'healthy-one');
  const full = found as ProjectView & { env_vars: Record<string, string> };
  assert.equal(full.env_vars, VARIABLES);
  const app = clientOf(addressed(platform, found), platform.network);
  const refreshed = await app.auth.refreshSession({ refresh_token: state.refreshToken });
  assert.is(refreshed.error, null, 'the app’s session continues');
  assert.equal((await app.from('todos').select('task')).data, [{ task: 'from before' }]);
  const stored = await clientOf({ ...addressed(platform, found), anon_key: found.service_role_key }, platform.network)
    .storage.from(OBJECT.bucket)
    .download(OBJECT.path);
  assert.is(stored.error, null, 'the object exists');
  assert.is(digest(await stored.data?.text()), digest(OBJECT.text));
  const called = await app.functions.invoke(FUNCTION.name);
  assert.is(called.error, null, 'the function responds');
  assert.is(called.data, VARIABLES.GREETING);
  await heardBy(app);
  await app.removeAllChannels();
  const { rows } = await person.query(healthy.id, 'select pubname, pubgencols from pg_publication');
  assert.equal(rows, [{ pubname: 'supabase_realtime', pubgencols: 's' }], 'realtime gets generated columns');
}

async function checkSuspended(
  platform: Reopened,
  person: Management,
  { projects: { suspended } }: WrittenState,
): Promise<void> {
  const { body } = await person.call<{ status: string }>('GET', `/projects/${suspended.id}/status`);
  assert.is(body.status, 'suspended', 'a suspended project stays suspended');
  await change(platform, suspended.ref, { suspend: false });
  const found = await person.untilHealthy(suspended.id);
  assertSameKeys(found, suspended);
  await assertConnects(platform, person, suspended, 'suspended-one');
}

async function checkRotating(
  platform: Reopened,
  person: Management,
  { projects: { rotating } }: WrittenState,
): Promise<void> {
  await change(platform, rotating.ref, { suspend: false });
  const found = await until(async () => {
    const now = await person.untilHealthy(rotating.id);
    return now.anon_key === rotating.anon_key ? undefined : now;
  }, 'the rotation ends');
  for (const anon_key of [found.anon_key, rotating.anon_key]) {
    const { error } = await clientOf({ ...addressed(platform, found), anon_key }, platform.network)
      .from('todos')
      .select('task');
    assert.is(error, null, 'the key before the rotation and the key after it work');
  }
  await assertConnects(platform, person, rotating, 'rotating-one');
}

async function checkApplied(
  platform: Reopened,
  person: Management,
  { projects: { applied } }: WrittenState,
): Promise<void> {
  const found = await person.untilHealthy(applied.id);
  assertSameKeys(found, applied);
  await assertConnects(platform, person, applied, 'applied-one');
}

async function checkRetained(platform: Reopened, person: Management, { retained }: WrittenState): Promise<void> {
  const project = await apply(platform, person, retained.ref);
  const { rows } = await person.query(project.id, 'select name from kept');
  assert.equal(rows, [{ name: 'retained-one' }], 'retained data is restored');
}

const addressed = (platform: Reopened, { project_url, anon_key }: ProjectView) => ({
  project_url: here(platform, project_url),
  anon_key,
});

/** Adapts a URL. A home is opened at other ports than it was written at, and a cluster's addresses stay. */
function here({ port }: Reopened, text: string): string {
  if (port === undefined) return text;
  const url = new URL(text);
  url.port = String(url.protocol === 'postgresql:' ? port + 2 : port);
  return url.href;
}

function assertSameKeys(found: ProjectView, written: Credentials): void {
  assert.is(found.ref, written.ref);
  assert.is(found.anon_key, written.anon_key);
  assert.is(found.service_role_key, written.service_role_key);
}

/** Checks that the written `db_url` connects, and that the owner still gets the same one. */
async function assertConnects(
  platform: Reopened,
  person: Management,
  { id, db_url }: Credentials,
  name: string,
): Promise<void> {
  const url = here(platform, db_url);
  await until(async () => {
    const { body } = await person.call<ProjectView>('GET', `/projects/${id}`);
    return body.db_url === url;
  }, 'db_url has the port of this platform, and nothing else changed');
  const client = new pg.Client(await platform.network.postgres(url));
  await client.connect();
  try {
    assert.equal((await client.query('select name from kept')).rows, [{ name }]);
  } finally {
    await client.end();
  }
}

const digest = (text = '') => createHash('sha256').update(text).digest('hex');

const read = (platform: Platform, name: string): Promise<Project> =>
  withClient(platform.kubeconfig, (client) => client.get(`${PROJECTS}/${name}`));

const find = (platform: Platform, name: string): Promise<Project | undefined> =>
  read(platform, name).catch((error) => {
    if (isNotFound(error)) return undefined;
    throw error;
  });

async function change(platform: Platform, name: string, spec: object): Promise<void> {
  await withClient(platform.kubeconfig, (client) => client.patch(`${PROJECTS}/${name}`, { spec }));
}

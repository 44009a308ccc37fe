import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { FINALIZER, GROUP, VERSION } from '@slipway/crds';
import { LABEL_PROJECT, namespaceOf, SECRETS } from '@slipway/installation';
import type { KubeClient } from '@slipway/kubernetes';
import { startTestKubernetes, type TestKubernetes } from '@slipway/kubernetes/testing.js';
import { recordHang } from '@slipway/program';
import { freePort, until } from '@slipway/testing';
import { createClient } from '@supabase/supabase-js';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestCluster, type TestCluster, type TestProject } from './testing/project.js';

const PROJECTS = `/apis/${GROUP}/${VERSION}/projects`;
const refs = ['first', 'second'].map((name) => `${name}-${randomBytes(4).toString('hex')}`) as [string, string];

let kubernetes: TestKubernetes;
let kube: KubeClient;
let cluster: TestCluster;
let program: ChildProcess;
let publicUrl: string;
let first: TestProject;
let second: TestProject;

test.before(async () => {
  kubernetes = await startTestKubernetes();
  kube = kubernetes.client;
  cluster = await startTestCluster();
  const port = await freePort();
  publicUrl = `http://localhost:${port}`;
  program = start(port);
  first = await publish(await cluster.project(refs[0], publicUrl));
  second = await publish(await cluster.project(refs[1], publicUrl));
  for (const project of [first, second]) await until(() => answersAt(project, 200), 'auth to answer');
});

test.after(async () => {
  program?.kill();
  for (const ref of refs) {
    await kube.patch(`${PROJECTS}/${ref}`, { metadata: { finalizers: null } });
    await kube.delete(`${PROJECTS}/${ref}`).catch(() => undefined);
    await kube.delete(`/api/v1/namespaces/${namespaceOf(ref)}`);
  }
  await cluster?.close();
  await kubernetes?.close();
});

function start(port: number, more: Record<string, string> = {}): ChildProcess {
  return fork(fileURLToPath(new URL('./main.js', import.meta.url)), {
    env: {
      KUBECONFIG: kubernetes.kubeconfig,
      SLIPWAY_PUBLIC_URL: `http://localhost:${port}`,
      SLIPWAY_LISTEN: `127.0.0.1:${port}`,
      SLIPWAY_API_SOCKET: '/nonexistent/api.sock',
      SLIPWAY_LOG_LEVEL: 'error',
      ...more,
    },
  });
}

/** True once auth responds at the URL; before the program listens, connections fail. */
const answersAt = ({ url }: TestProject, status: number) =>
  fetch(`${url}/auth/v1/health`).then(
    (answer) => answer.status === status,
    () => false,
  );

/** Publishes a project as the operator does. */
async function publish(project: TestProject): Promise<TestProject> {
  const { ref, authenticator, authAdmin, owner } = project;
  const namespace = namespaceOf(ref);
  await kube.create<object>('/api/v1/namespaces', { metadata: { name: namespace } });
  const secret = (name: string, stringData: Record<string, string>) =>
    kube.create<object>(`/api/v1/namespaces/${namespace}/secrets`, {
      metadata: { name, labels: { [LABEL_PROJECT]: ref } },
      stringData,
    });
  const { keys, database } = SECRETS;
  await secret(keys.name, {
    [keys.jwtSecret]: project.jwtSecret,
    [keys.anonKey]: project.anonKey,
    [keys.serviceRoleKey]: project.serviceRoleKey,
  });
  await secret(database.name, {
    [database.host]: authAdmin.host,
    [database.port]: String(authAdmin.port),
    [database.database]: authAdmin.database,
    [database.ownerPassword]: owner.password,
    [database.authenticatorPassword]: authenticator.password,
    [database.authAdminPassword]: authAdmin.password,
  });
  const metadata = { name: ref, finalizers: [FINALIZER] };
  const spec = { owner: 'al@example.com' };
  const body = { apiVersion: `${GROUP}/${VERSION}`, kind: 'Project', metadata, spec };
  await kube.create<object>(PROJECTS, body);
  return project;
}

const client = ({ url, anonKey }: TestProject, key = anonKey) =>
  createClient(url, key, { auth: { persistSession: false, autoRefreshToken: false } });

async function asOwner({ owner }: TestProject, sql: string): Promise<void> {
  const session = new pg.Client(owner);
  await session.connect();
  await session.query(sql);
  await session.end();
}

test('users of a project sign up and see only their own rows', async () => {
  await asOwner(
    first,
    `create table public.notes (id bigint generated always as identity primary key,
       user_id uuid default auth.uid(), body text);
     alter table public.notes enable row level security;
     create policy own on public.notes using (user_id = auth.uid()) with check (user_id = auth.uid())`,
  );
  const [al, bo] = [client(first), client(first)];
  for (const [user, email] of [
    [al, 'al@example.com'],
    [bo, 'bo@example.com'],
  ] as const) {
    assert.is((await user.auth.signUp({ email, password: 'correct horse' })).error, null);
    assert.is((await user.from('notes').insert({ body: `of ${email}` })).error, null);
  }
  const seen = await al.from('notes').select('body');
  assert.equal(seen.data, [{ body: 'of al@example.com' }]);
  assert.equal((await client(first).from('notes').select('body')).data, []);
  const all = await client(first, first.serviceRoleKey).from('notes').select('body');
  assert.is(all.data?.length, 2);
});

test('a key or token of one project is rejected by every service of another project', async () => {
  const { data } = await client(first).auth.signUp({ email: 'cy@example.com', password: 'correct horse' });
  for (const token of [first.anonKey, first.serviceRoleKey, data.session?.access_token as string]) {
    for (const path of ['/rest/v1/', '/auth/v1/user', '/auth/v1/admin/users']) {
      for (const headers of [{ apikey: token }, { apikey: second.anonKey, authorization: `Bearer ${token}` }]) {
        const { status } = await fetch(second.url + path, { headers });
        assert.ok([401, 403].includes(status), `${path} ${status}`);
      }
    }
  }
});

test('a project that hung two earlier runs gets 503 from the start, and other projects are served', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
  const record = path.join(folder, 'hangs.json');
  for (const _ of [1, 2]) recordHang(record, { at: Date.now(), project: first.ref, operation: 'rest request' });
  const port = await freePort();
  const restarted = start(port, { SLIPWAY_HANG_RECORD: record });
  const at = (project: TestProject) => ({ ...project, url: `http://localhost:${port}/p/${project.ref}` });
  await until(() => answersAt(at(second), 200), 'the neighbour to be served');
  await until(async () => {
    const refused = await fetch(`${at(first).url}/auth/v1/health`);
    return refused.status === 503 && ((await refused.json()) as { code?: string }).code === 'project_paused';
  }, 'the project to be paused');
  restarted.kill();
  rmSync(folder, { recursive: true });
});

test('a request for a project that is being deleted gets 404', async () => {
  await kube.delete(`${PROJECTS}/${second.ref}`);
  await until(() => answersAt(second, 404), 'the project to be gone');
  assert.is((await fetch(`${first.url}/auth/v1/health`)).status, 200);
});

test('the program exits when its parent process exits', async () => {
  const port = await freePort();
  const child = start(port);
  await new Promise((resolve) => child.once('message', resolve));
  const ended = new Promise((resolve) => child.once('exit', (_code, signal) => resolve(signal)));
  child.disconnect();
  assert.is(await ended, 'SIGKILL');
});

test('a missing or invalid setting is named in one line', async () => {
  const child = fork(fileURLToPath(new URL('./main.js', import.meta.url)), {
    env: { SLIPWAY_LISTEN: '127.0.0.1:1', SLIPWAY_PUBLIC_URL: 'localhost' },
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  let text = '';
  child.stderr?.on('data', (chunk) => {
    text += chunk;
  });
  assert.is(await new Promise((resolve) => child.once('exit', resolve)), 1);
  assert.match(text, /^dataplane: SLIPWAY_PUBLIC_URL is "localhost": it is like http:\/\/localhost:4000\n$/);
});

test.run();

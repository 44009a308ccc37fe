/** Tests dedicated projects on real machines, through the platform's own addresses, with stock clients. */
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '@slipway/testing';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { kubectl, kubectlIsThere } from './kubectl.js';
import { Management, type ProjectView } from './management.js';
import { directly, loginOf } from './network.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { cloudUrl, TestCloud } from './test-cloud.js';
import { clientOf, TODOS_SQL, usedByTwoPeople } from './todos.js';

const PROVISIONED_MS = 300_000;
const MEBIBYTE = 2 ** 20;
const FUNCTION = `Deno.serve(async () => {
  console.log('read the tasks');
  const url = Deno.env.get('SUPABASE_URL') + '/rest/v1/todos?select=task';
  const apikey = Deno.env.get('SUPABASE_SERVICE_ROLE_KEY');
  return Response.json(await (await fetch(url, { headers: { apikey } })).json());
});`;

const machines = suite('dedicated projects');
const test = cloudUrl ? machines : machines.skip;
const byKubectl = cloudUrl && kubectlIsThere ? machines : machines.skip;
if (!kubectlIsThere) console.log('# skipped in part: there is no kubectl');

let cloud: TestCloud;
let platform: RunningPlatform;
let person: Management;
let project: ProjectView;

machines.before(async () => {
  if (!cloudUrl) return;
  cloud = new TestCloud();
  platform = await startPlatform(undefined, cloud.settings);
  person = await Management.register(platform);
});
machines.after(async () => {
  await platform?.remove();
  await cloud?.close();
});

interface Status {
  status: string;
  message: string;
  services: Record<string, { up: boolean }>;
  conditions: { type: string; status: string; reason: string; message: string }[];
}
const statusOf = async ({ id }: ProjectView) => (await person.call<Status>('GET', `/projects/${id}/status`)).body;
/** Lists objects of projects at the provider, without those of the snapshot that all new machines boot from. */
const ofProjects = async (kind: 'servers' | 'ssh_keys' | 'images') =>
  (await cloud.list(kind)).filter(({ labels }) => 'slipway.dev/project' in labels);
const conditionOf = async (of: ProjectView, type: string) =>
  (await statusOf(of)).conditions.find((condition) => condition.type === type);

test('a dedicated project becomes healthy, and stock clients use all of its services', async () => {
  const begun = performance.now();
  const { id } = await person.createProject('own', undefined, 'dedicated');
  project = await person.untilHealthy(id, PROVISIONED_MS);
  console.log(`# healthy after ${((performance.now() - begun) / 1000).toFixed(1)} s: ${project.provision_message}`);
  const { services, conditions } = await statusOf(project);
  const up = Object.entries(services).flatMap(([name, service]) => (service.up ? name : []));
  assert.equal(up.sort(), ['auth', 'database', 'functions', 'realtime', 'rest', 'storage']);
  for (const type of ['MachineReserved', 'MachineCreated', 'MachineBooted', 'MachineReachable', 'SoftwareInstalled']) {
    assert.is(conditions.find((condition) => condition.type === type)?.status, 'True', type);
  }
  await person.query(id, TODOS_SQL);
  await usedByTwoPeople(project, directly);
});

test('files of 5 MiB are stored on the machine and read again', async () => {
  const { storage } = clientOf({ ...project, anon_key: project.service_role_key }, directly);
  assert.is((await storage.createBucket('files')).error, null);
  const bytes = Buffer.alloc(5 * MEBIBYTE, 7);
  assert.is((await storage.from('files').upload('a/b.bin', bytes)).error, null);
  const { data, error } = await storage.from('files').download('a/b.bin');
  assert.is(error, null);
  assert.ok(Buffer.from(await (data as Blob).arrayBuffer()).equals(bytes));
});

test('an edge function runs on the machine and reads its own project', async () => {
  const created = await person.call<{ id: number }>('POST', `/projects/${project.id}/functions`, {
    name: 'tasks',
    code: FUNCTION,
    verify_jwt: true,
  });
  assert.is(created.status, 201, JSON.stringify(created.body));
  const deployed = await person.call('POST', `/projects/${project.id}/functions/${created.body.id}/deploy`);
  assert.ok(deployed.status < 300, JSON.stringify(deployed.body));
  const client = clientOf(project, directly);
  const answer = await until(
    async () => {
      const { data, error } = await client.functions.invoke('tasks');
      return error ? undefined : (data as { task: string }[]);
    },
    'the function answers',
    60_000,
  );
  assert.equal(answer?.map(({ task }) => task).sort(), ['write to ann', 'write to bob']);
  const logs = () =>
    person.call<{ message: string }[]>('GET', `/projects/${project.id}/functions/${created.body.id}/logs`);
  await until(
    async () => (await logs()).body.some(({ message }) => message.includes('read the tasks')),
    'it is logged',
  );
});

test('db_url leads to pgbouncer on the machine, over TLS', async () => {
  const login = loginOf(project.db_url);
  assert.is(login.port, 6543);
  const client = new pg.Client({ ...login, ssl: { rejectUnauthorized: false } });
  await client.connect();
  const { rows } = await client.query('select count(*)::int as tasks from todos');
  await client.end();
  assert.equal(rows, [{ tasks: 2 }]);
});

test('a killed platform finds the machine again, and the project never stops being healthy', async () => {
  await platform.kill();
  platform = await startPlatform(platform, cloud.settings);
  const seen = new Set<string>();
  for (let look = 0; look < 40; look += 1) {
    const { status, message } = await statusOf(project);
    seen.add(status === 'healthy' ? status : `${status}: ${message}`);
    await sleep(500);
  }
  assert.equal([...seen], ['healthy']);
  await until(async () => (await conditionOf(project, 'MachineReady'))?.status === 'True', 'the machine is looked at');
  const { rows } = await person.query(project.id, 'select count(*)::int as tasks from todos');
  assert.equal(rows, [{ tasks: 2 }]);
  assert.is((await ofProjects('servers')).length, 1);
});

byKubectl('a project that kubectl applied gets a machine, and no other project gets its own', async () => {
  const manifest = {
    apiVersion: 'slipway.dev/v1alpha1',
    kind: 'Project',
    metadata: { name: 'applied' },
    spec: { owner: person.email, name: 'applied', type: 'dedicated' },
  };
  await kubectl(platform.kubeconfig, ['apply', '-f', '-'], JSON.stringify(manifest));
  const applied = await until(
    async () => (await person.call<ProjectView[]>('GET', '/projects')).body.find(({ name }) => name === 'applied'),
    'the project is in the list',
  );
  const healthy = await person.untilHealthy((applied as ProjectView).id, PROVISIONED_MS);
  await person.query(healthy.id, TODOS_SQL);
  await usedByTwoPeople(healthy, directly);
  const { rows } = await person.query(project.id, 'select count(*)::int as tasks from todos');
  assert.equal(rows, [{ tasks: 2 }]);
  assert.is((await ofProjects('servers')).length, 2);
  await kubectl(platform.kubeconfig, ['delete', 'project', 'applied', '--timeout=120s']);
  assert.is((await ofProjects('servers')).length, 1);
});

test('a deleted project leaves nothing of it at the provider', async () => {
  assert.ok((await person.call('DELETE', `/projects/${project.id}`)).status < 300);
  await person.untilGone(project.id);
  for (const kind of ['servers', 'ssh_keys', 'images'] as const) assert.equal(await ofProjects(kind), [], kind);
});

machines.run();

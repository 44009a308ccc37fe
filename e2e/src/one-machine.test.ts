/** The whole path of a person from a fresh start to a deleted project, through the public ports. */
import { API_VERSION } from '@slipway/crds';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { stringify } from 'yaml';
import { kubectl, kubectlIsThere } from './kubectl.js';
import { databaseObjectsOf } from './leftovers.js';
import { Management, type ProjectView } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { TODOS_SQL, usedByTwoPeople } from './todos.js';
import { until } from './until.js';

/** Without kubectl these count as skipped. */
const withKubectl = kubectlIsThere ? test : test.skip;

let platform: RunningPlatform;

test.before(async () => {
  platform = await startPlatform();
});

test.after(async () => {
  await platform?.remove();
});

test('a person registers, creates a project, and an app signs people up and reads and writes under row-level security', async () => {
  const person = await Management.register(platform.url);
  const created = await person.createProject('first');
  const project = await person.untilHealthy(created.id);
  assert.is(project.project_url, `${platform.url}/p/${project.ref}`);
  await person.query(project.id, TODOS_SQL);
  await usedByTwoPeople(project);
  assert.is.not((await databaseObjectsOf(platform, project.ref)).length, 0);

  const deleted = await person.call('DELETE', `/projects/${project.id}`);
  assert.is(deleted.status, 200);
  await person.untilGone(project.id);
  assert.equal(await databaseObjectsOf(platform, project.ref), []);
});

withKubectl('a project created over REST shows in kubectl, with its phase and address', async () => {
  const person = await Management.register(platform.url);
  const project = await person.untilHealthy((await person.createProject('seen')).id);
  const table = await kubectl(platform.kubeconfig, ['get', 'projects']);
  const row = table.split('\n').find((line) => line.startsWith(`${project.ref} `));
  assert.match(row ?? '', /healthy/);
  assert.ok(row?.includes(project.project_url), table);
});

withKubectl(
  'a Project applied with kubectl becomes ready, shows in REST, serves an app, and is gone after kubectl delete',
  async () => {
    const person = await Management.register(platform.url);
    const manifest = stringify({
      apiVersion: API_VERSION,
      kind: 'Project',
      metadata: { name: 'applied' },
      spec: { owner: person.email },
    });
    await kubectl(platform.kubeconfig, ['apply', '-f', '-'], manifest);
    await kubectl(platform.kubeconfig, ['wait', '--for=condition=Ready', 'project/applied', '--timeout=60s']);
    const listed = await until('the project shows in REST', async () => {
      const { body } = await person.call<ProjectView[]>('GET', '/projects');
      return body.find(({ ref }) => ref === 'applied');
    });
    const project = await person.untilHealthy(listed.id);
    await person.query(project.id, TODOS_SQL);
    await usedByTwoPeople(project);

    await kubectl(platform.kubeconfig, ['delete', 'project', 'applied', '--timeout=60s']);
    await person.untilGone(project.id);
    assert.equal(await databaseObjectsOf(platform, 'applied'), []);
  },
);

test('a stop and a start keep accounts, tokens, projects and rows', async () => {
  const person = await Management.register(platform.url);
  const project = await person.untilHealthy((await person.createProject('kept')).id);
  await person.query(project.id, `${TODOS_SQL} insert into todos (owner, task) values (gen_random_uuid(), 'stay')`);
  await platform.stop();
  platform = await startPlatform(platform);
  const found = await person.untilHealthy(project.id);
  assert.equal(found.anon_key, project.anon_key);
  assert.equal((await person.query(project.id, 'select task from todos')).rows, [{ task: 'stay' }]);
});

test.run();

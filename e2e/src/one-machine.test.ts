/** The walk on one machine, and what outlives its stop. */
import { CustomObjectsApi, KubeConfig } from '@kubernetes/client-node';
import { API_VERSION, type EdgeFunction, GROUP, namespaceOf, VERSION } from '@slipway/crds';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { databaseObjectsOf } from './leftovers.js';
import { Management } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { TODOS_SQL } from './todos.js';
import { until } from './until.js';
import { walk } from './walk.suite.js';

const FUNCTION = { name: 'hello', code: "Deno.serve(() => new Response('hello'));" };

let platform: RunningPlatform;

test.before(async () => {
  platform = await startPlatform();
});

test.after(async () => {
  await platform?.remove();
});

walk(test, () => platform, {
  plan: 'free',
  how: 'on one machine',
  observed: async (ref) => {
    // Its database, and its three roles.
    assert.is((await databaseObjectsOf(platform, ref)).length, 4);
  },
});

test('a stop and a start keep accounts, tokens, projects and rows', async () => {
  const person = await Management.register(platform);
  const project = await person.untilHealthy((await person.createProject('kept')).id);
  await person.query(project.id, `${TODOS_SQL} insert into todos (owner, task) values (gen_random_uuid(), 'stay')`);
  await platform.stop();
  platform = await startPlatform(platform);
  const found = await person.untilHealthy(project.id);
  assert.equal(found.anon_key, project.anon_key);
  assert.equal((await person.query(project.id, 'select task from todos')).rows, [{ task: 'stay' }]);
});

test('what is not open to shared projects is refused by the name of the setting: over REST, in the status of what is applied, and at the project’s address', async () => {
  const person = await Management.register(platform);
  const project = await person.untilHealthy((await person.createProject('closed')).id);
  const setting = /functions is not available here.*SLIPWAY_SERVICES_SHARED=functions/;
  const made = await person.call<{ detail: string }>('POST', `/projects/${project.id}/functions`, FUNCTION);
  assert.is(made.status, 403);
  assert.match(made.body.detail, setting);

  const config = new KubeConfig();
  config.loadFromFile(platform.kubeconfig);
  const objects = config.makeApiClient(CustomObjectsApi);
  const at = { group: GROUP, version: VERSION, namespace: namespaceOf(project.ref), plural: 'edgefunctions' };
  const body = { apiVersion: API_VERSION, kind: 'EdgeFunction', metadata: { name: 'hello' }, spec: FUNCTION };
  await objects.createNamespacedCustomObject({ ...at, body });
  const status = await until('its status says so', async () => {
    const found: EdgeFunction = await objects.getNamespacedCustomObject({ ...at, name: 'hello' });
    return found.status?.phase === 'error' ? found.status : undefined;
  });
  assert.match(status.message ?? '', setting);

  for (const service of ['storage', 'functions']) {
    const answer = await fetch(`${project.project_url}/${service}/v1/hello`, { headers: { apikey: project.anon_key } });
    assert.is(answer.status, 404);
    assert.match(await answer.text(), new RegExp(`SLIPWAY_SERVICES_SHARED=${service}`));
  }
});

test.run();

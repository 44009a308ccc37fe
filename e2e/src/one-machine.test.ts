/** Runs the walk on one machine, and tests the state after a stop. */

import { API_VERSION, type EdgeFunction, GROUP, VERSION } from '@slipway/crds';
import { namespaceOf } from '@slipway/installation';
import { withClient } from '@slipway/kubernetes/testing.js';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { databaseObjectsOf } from './leftovers.js';
import { Management } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { TODOS_SQL } from './todos.js';
import { walk } from './walk.suite.js';

const FUNCTION = { name: 'hello', code: "Deno.serve(() => new Response('hello'));" };

let platform: RunningPlatform;

/** Variable that scripts/start.mjs sets after ten minutes of installing. */
const PREPARED = { SLIPWAY_PREPARED_MS: '600000' };

test.before(async () => {
  platform = await startPlatform(undefined, PREPARED);
});

test.after(async () => {
  await platform?.remove();
});

walk(test, () => platform, {
  plan: 'free',
  how: 'on one machine',
  observed: async (ref) => {
    // The project's database, and its three roles.
    assert.is((await databaseObjectsOf(platform, ref)).length, 4);
  },
});

test('the printed time until ready starts with npm start, and includes the work of its script', () => {
  const [, seconds] = /Slipway is ready \(([\d.]+) s after npm start\)/.exec(platform.output()) ?? [];
  assert.ok(Number(seconds) > 600 && Number(seconds) < 800, seconds);
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

test('a closed service is rejected with its setting: over REST, in the status and at the project’s URL', async () => {
  const person = await Management.register(platform);
  const project = await person.untilHealthy((await person.createProject('closed')).id);
  const setting = /functions is not available here.*SLIPWAY_SERVICES_SHARED=functions/;
  const made = await person.call<{ detail: string }>('POST', `/projects/${project.id}/functions`, FUNCTION);
  assert.is(made.status, 403);
  assert.match(made.body.detail, setting);

  const path = `/apis/${GROUP}/${VERSION}/namespaces/${namespaceOf(project.ref)}/edgefunctions`;
  const body = { apiVersion: API_VERSION, kind: 'EdgeFunction', metadata: { name: 'hello' }, spec: FUNCTION };
  await withClient(platform.kubeconfig, (client) => client.create<object>(path, body));
  const status = await until(async () => {
    const found = await withClient(platform.kubeconfig, (client) => client.get<EdgeFunction>(`${path}/hello`));
    return found.status?.phase === 'error' ? found.status : undefined;
  }, 'the status of the closed service');
  assert.match(status.message ?? '', setting);

  for (const service of ['storage', 'functions']) {
    const answer = await fetch(`${project.project_url}/${service}/v1/hello`, { headers: { apikey: project.anon_key } });
    assert.is(answer.status, 404);
    assert.match(await answer.text(), new RegExp(`SLIPWAY_SERVICES_SHARED=${service}`));
  }
});

test.run();

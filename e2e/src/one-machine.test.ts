/** The walk on one machine, and what outlives its stop. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { databaseObjectsOf } from './leftovers.js';
import { Management } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { TODOS_SQL } from './todos.js';
import { walk } from './walk.suite.js';

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

test.run();

/** Changes settings of auth and REST over the management API, and checks their effect at the project's URL. */
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Management, type ProjectView } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';

let platform: RunningPlatform;
let person: Management;
let project: ProjectView;

test.before(async () => {
  platform = await startPlatform();
  person = await Management.register(platform);
  project = await person.untilHealthy((await person.createProject('settings')).id);
});
test.after(() => platform?.remove());

async function change(service: 'auth' | 'rest', settings: object) {
  const { status, body } = await person.call('PATCH', `/projects/${project.id}/config/${service}`, settings);
  assert.is(status, 200, JSON.stringify(body));
}

async function fetched(path: string, init: RequestInit = {}) {
  const headers = { apikey: project.anon_key ?? '', 'content-type': 'application/json' };
  const response = await platform.network.fetch(`${project.project_url}${path}`, { ...init, headers } as never);
  return { status: response.status, body: (await response.json()) as never };
}

test('a setting of auth takes effect, and its removal restores the default', async () => {
  const signup = async (email: string) =>
    (await fetched('/auth/v1/signup', { method: 'POST', body: JSON.stringify({ email, password: 'a long password' }) }))
      .status;
  assert.is(await signup('ann@example.com'), 200);
  await change('auth', { disable_signup: true });
  await until(
    () => signup('bob@example.com'),
    (status) => status === 422,
  );
  await change('auth', { disable_signup: null });
  await until(
    () => signup('cara@example.com'),
    (status) => status === 200,
  );
});

test('a setting of REST takes effect, and its removal restores the default', async () => {
  await person.query(
    project.id,
    'create table notes as select generate_series(1, 3) as id; grant select on notes to anon',
  );
  const count = async () => ((await fetched('/rest/v1/notes')).body as unknown[]).length;
  await until(count, (rows) => rows === 3);
  await change('rest', { db_max_rows: 2 });
  await until(count, (rows) => rows === 2);
  await change('rest', { db_max_rows: null });
  await until(count, (rows) => rows === 3);
});

test.run();

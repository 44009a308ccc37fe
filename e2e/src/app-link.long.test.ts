/** Tests an app that is linked to a project, through real requests and a real client of Postgres in its container. */
import { cpSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { createApp, deployed, openApps, push } from './apps.js';
import { kubectl, kubectlIsThere } from './kubectl.js';
import { Management, type ProjectView } from './management.js';
import { requestSite } from './site-request.js';

/** The app reports its variables, the response to a request, and the result of a query, also on a kept connection. */
const APP = `
const { createServer, get, request } = require('node:http');
const { Client } = require('pg');
let kept;
const bodyOf = async (messages) => {
  let text = '';
  for await (const piece of messages) text += piece;
  return text;
};
const ask = ({ url, host, key }) => new Promise((resolve) => {
  const headers = { ...(host && { host }), ...(key && { apikey: key, authorization: 'Bearer ' + key }) };
  const answered = async (message) => resolve({ status: message.statusCode, body: await bodyOf(message) });
  request(url, { headers, timeout: 3000 }, answered)
    .on('error', ({ code }) => resolve({ code }))
    .on('timeout', function () { this.destroy(); resolve({ code: 'TIMEOUT' }); })
    .end();
});
const query = async ({ sql, url = process.env.DATABASE_URL }) => {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 3000, query_timeout: 3000 });
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query(sql);
    return { rows };
  } catch (error) {
    return { error: error.message || String(error.code) };
  } finally {
    client.end().catch(() => {});
  }
};
const keep = async ({ sql }) => {
  try {
    if (!kept) {
      kept = new Client({ connectionString: process.env.DATABASE_URL, query_timeout: 3000 });
      kept.on('error', () => {});
      await kept.connect();
    }
    return { rows: (await kept.query(sql)).rows };
  } catch (error) {
    return { error: error.message };
  }
};
const WORK = { '/ask': ask, '/query': query, '/keep': keep, '/env': () => process.env };
createServer(async ({ url }, response) => {
  const { pathname, searchParams } = new URL(url, 'http://app');
  const result = await WORK[pathname]?.(Object.fromEntries(searchParams));
  response.end(JSON.stringify(result ?? { version: 1 }));
}).listen(process.env.PORT);
process.on('SIGTERM', () => process.exit(0));
`;

const scene = await openApps('token-of-the-owner');
const { own, lacking } = scene;
const { person, workshop } = own;
const link = suite('apps with a database');
const test = lacking ? link.skip : link;
if (!kubectlIsThere) console.log('# skipped in part: there is no kubectl');
const byKubectl = kubectlIsThere ? test : link.skip;
link.after(() => scene.close());

const PACKAGES = path.resolve(import.meta.dirname, '../../node_modules');

/** Copies a package and all that it depends on. */
function copyPackage(name: string, to: string): void {
  const from = path.join(PACKAGES, name);
  cpSync(from, path.join(to, name), { recursive: true });
  const manifest = readFileSync(path.join(from, 'package.json'), 'utf8');
  const { dependencies = {} } = JSON.parse(manifest) as { dependencies?: Record<string, string> };
  for (const each of Object.keys(dependencies)) copyPackage(each, to);
}

let app: ProjectView;
let database: ProjectView;
let other: ProjectView;

type Result = Record<string, unknown> & {
  status?: number;
  body?: string;
  code?: string;
  error?: string;
  rows?: object[];
};

async function run(route: string, parameters: Record<string, string> = {}): Promise<Result> {
  const answer = await requestSite(app.project_url, `${route}?${new URLSearchParams(parameters)}`);
  if (answer.status !== 200) throw new Error(`${route}: ${answer.status} ${answer.body.slice(0, 200)}`);
  return JSON.parse(answer.body) as Result;
}
const variables = () => run('/env').catch(() => ({}) as Result);
const linkTo = (ref: string | null, by: Management = person) =>
  by.call<{ errors?: { field: string }[] }>('PATCH', `/projects/${app.id}`, { database_project: ref });
const untilLinked = (isLinked: boolean) =>
  until(async () => {
    const env = await run('/env').catch(() => undefined);
    return env && (env.DATABASE_URL !== undefined) === isLinked;
  }, `linked: ${isLinked}`);

const patch = ({ ref }: ProjectView, spec: object) =>
  kubectl(scene.platform.kubeconfig, ['patch', `project/${ref}`, '--type=merge', '-p', JSON.stringify({ spec })]);

async function makeLinked(): Promise<void> {
  const created = await Promise.all(['database', 'other'].map((name) => person.createProject(name)));
  [database, other] = (await Promise.all(created.map(({ id }) => person.untilHealthy(id)))) as [
    ProjectView,
    ProjectView,
  ];
  await person.query(database.id, 'create table notes (body text); insert into notes values ($$ours$$)');
  app = await createApp(own, 'linked', APP);
  copyPackage('pg', path.join(workshop.folder, 'trees', 'linked', 'base', 'node_modules'));
  push(own, 'linked', {});
  assert.is((await linkTo(database.ref)).status, 200);
  const build = await deployed(own, app);
  assert.is(build.phase, 'Deployed', build.log);
  await untilLinked(true);
}
test('a linked app reaches the services and the database of the project', async () => {
  await makeLinked();
  const env = await variables();
  assert.equal(
    [env.SUPABASE_PUBLIC_URL, env.SUPABASE_ANON_KEY, env.SUPABASE_SERVICE_ROLE_KEY],
    [database.project_url, database.anon_key, database.service_role_key],
  );
  const rest = await run('/ask', { url: `${env.SUPABASE_URL}/rest/v1/notes`, key: `${env.SUPABASE_SERVICE_ROLE_KEY}` });
  assert.equal([rest.status, rest.body], [200, '[{"body":"ours"}]']);
  assert.equal((await run('/query', { sql: 'select body from notes' })).rows, [{ body: 'ours' }]);
});

test('nothing else of the platform answers a linked app', async () => {
  const env = await variables();
  const url = new URL(`${env.SUPABASE_URL}`);
  const { port: platformPort } = new URL(scene.platform.url);
  assert.is(url.port, platformPort);
  for (const [target, host] of [
    ['/projects', `localhost:${url.port}`],
    ['/healthz', `localhost:${url.port}`],
    ['/rest/v1/notes', `${other.ref}.localhost:${url.port}`],
    [`/p/${other.ref}/rest/v1/notes`, `localhost:${url.port}`],
    ['/', new URL(app.project_url).host],
  ] as const) {
    const asked = await run('/ask', { url: `${url.origin}${target}`, host, key: other.anon_key });
    assert.is(asked.status, 403, `${host}${target}: ${JSON.stringify(asked)}`);
  }
  // The Kubernetes API has the next port.
  const kubernetes = await run('/ask', { url: `http://${url.hostname}:${Number(url.port) + 1}/` });
  assert.ok(kubernetes.code, JSON.stringify(kubernetes));
  const theirs = new URL(`${env.DATABASE_URL}`);
  theirs.pathname = new URL(other.db_url).pathname;
  assert.ok((await run('/query', { sql: 'select 1', url: theirs.href })).error, 'the database of another project');
});

test('an app that is not linked reaches neither', async () => {
  const env = await variables();
  assert.equal((await run('/keep', { sql: 'select 1 as one' })).rows, [{ one: 1 }]);
  assert.is((await linkTo(null)).status, 200);
  await untilLinked(false);
  const rest = await run('/ask', { url: `${env.SUPABASE_URL}/rest/v1/notes`, key: `${env.SUPABASE_SERVICE_ROLE_KEY}` });
  assert.ok(rest.code, JSON.stringify(rest));
  assert.ok((await run('/query', { sql: 'select 1', url: `${env.DATABASE_URL}` })).error);
  assert.is((await linkTo(database.ref)).status, 200);
  await untilLinked(true);
});

byKubectl('new keys and passwords reach a linked app', async () => {
  const before = await variables();
  await patch(database, { rotation: { databasePasswords: 1 } });
  await until(async () => {
    const now = (await variables()).DATABASE_URL;
    return now !== undefined && now !== before.DATABASE_URL;
  }, 'the app has the new password');
  assert.equal((await run('/query', { sql: 'select body from notes' })).rows, [{ body: 'ours' }]);
});

test('a link needs a shared project of the same account, and a token that may read its secrets', async () => {
  const stranger = await Management.register(scene.platform);
  const theirs = await stranger.createProject('theirs');
  for (const ref of [theirs.ref, app.ref, 'no-such-project']) {
    const { status, body } = await linkTo(ref);
    assert.equal([status, body.errors?.[0]?.field], [400, 'database_project'], ref);
  }
  const json = { name: 'narrow', scopes: ['projects:read', 'projects:write'] };
  const { body } = await person.call<{ token: string }>('POST', '/tokens', json);
  const narrow = Management.withToken(scene.platform, person.email, body.token);
  assert.is((await linkTo(database.ref, narrow)).status, 403);
});

test('a suspension of the project ends the link, and the app serves without it', async () => {
  assert.is((await person.call('PATCH', `/projects/${database.id}`, { suspended: true })).status, 200);
  await untilLinked(false);
  const { body } = await person.call<{ status: string; message: string }>('GET', `/projects/${app.id}/status`);
  assert.match(body.message, /not linked to a database: project \S+ is suspended/);
  assert.is((await person.call('PATCH', `/projects/${database.id}`, { suspended: false })).status, 200);
  await untilLinked(true);
});

byKubectl(
  'a transfer of the project ends the link at once, also for connections of a container that stays',
  async () => {
    const env = await variables();
    assert.equal((await run('/keep', { sql: 'select 1 as one' })).rows, [{ one: 1 }]);
    const heir = await Management.register(scene.platform);
    await patch(database, { owner: heir.email });
    await until(async () => {
      const kept = await run('/keep', { sql: 'select 1 as one' }).catch(() => undefined);
      return kept?.error !== undefined;
    }, 'the connection is cut, or a new container has none');
    await untilLinked(false);
    assert.ok((await run('/query', { sql: 'select 1', url: `${env.DATABASE_URL}` })).error);
  },
);

link.run();

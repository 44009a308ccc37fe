/**
 * Calls every operation of `/openapi.json` as every kind of caller. RULES defines who may call each operation. An
 * operation without a rule fails, so that a new route can't be forgotten. In: a platform. Every platform runs this
 * suite.
 */
import { randomUUID } from 'node:crypto';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { Management, type ProjectView } from './management.js';
import type { Platform } from './platform.js';

/**
 * The callers that an operation allows.
 * - public: everybody
 * - account: an account, for its own data
 * - session: like account, but not with a personal access token
 * - owned: the owner of the project or token in the path; for others it does not exist
 * - administrator: administrators
 * - key: a key of the project, or a ticket of a build
 */
type Access = 'public' | 'account' | 'session' | 'owned' | 'administrator' | 'key';

const RULES: Record<string, Access> = {
  'POST /auth/register': 'public',
  'POST /auth/login': 'public',
  'GET /auth/me': 'account',
  'GET /tokens': 'account',
  'POST /tokens': 'account',
  'DELETE /tokens/{id}': 'owned',
  'GET /projects': 'account',
  'POST /projects': 'account',
  'GET /projects/{id}': 'owned',
  'PATCH /projects/{id}': 'owned',
  'DELETE /projects/{id}': 'owned',
  'GET /projects/{id}/status': 'owned',
  'GET /projects/{id}/env': 'owned',
  'GET /projects/{id}/config/auth': 'owned',
  'GET /projects/{id}/logs/{service}': 'owned',
  'PATCH /projects/{id}/config/auth': 'owned',
  'POST /projects/{id}/config/auth/test-mail': 'owned',
  'GET /projects/{id}/webhooks': 'owned',
  'POST /projects/{id}/webhooks': 'owned',
  'DELETE /projects/{id}/webhooks/{webhook_id}': 'owned',
  'POST /projects/{id}/webhooks/{webhook_id}/rotate': 'owned',
  'POST /projects/{id}/notifications/test': 'owned',
  'GET /projects/{id}/notifications/deliveries': 'owned',
  'GET /projects/{id}/forms': 'owned',
  'PATCH /projects/{id}/forms/{name}': 'owned',
  'DELETE /projects/{id}/forms/{name}': 'owned',
  'GET /projects/{id}/forms/{name}/entries': 'owned',
  'GET /projects/{id}/forms/{name}/entries.csv': 'owned',
  'DELETE /projects/{id}/forms/{name}/entries/{entry_id}': 'owned',
  'GET /projects/{id}/config/rest': 'owned',
  'PATCH /projects/{id}/config/rest': 'owned',
  'POST /projects/{id}/reprovision': 'owned',
  'GET /projects/{id}/services': 'owned',
  'POST /projects/{id}/services/{service}/restart': 'owned',
  'GET /projects/{id}/services/{service}/logs': 'owned',
  'GET /projects/{id}/snapshots': 'owned',
  'POST /projects/{id}/snapshots': 'owned',
  'DELETE /projects/{id}/snapshots/{name}': 'owned',
  'POST /projects/{id}/snapshots/{name}/restore': 'owned',
  'POST /projects/{id}/resize': 'owned',
  'POST /projects/{id}/rotate': 'owned',
  'POST /projects/{id}/suspend': 'owned',
  'POST /projects/{id}/resume': 'owned',
  'POST /projects/{id}/query': 'owned',
  'GET /projects/{id}/functions': 'owned',
  'POST /projects/{id}/functions': 'owned',
  'GET /projects/{id}/functions/{funcId}': 'owned',
  'PATCH /projects/{id}/functions/{funcId}': 'owned',
  'DELETE /projects/{id}/functions/{funcId}': 'owned',
  'POST /projects/{id}/functions/{funcId}/deploy': 'owned',
  'GET /projects/{id}/functions/{funcId}/versions': 'owned',
  'POST /projects/{id}/functions/{funcId}/rollback': 'owned',
  'GET /projects/{id}/functions/{funcId}/logs': 'owned',
  'POST /projects/{id}/deploy': 'owned',
  'POST /projects/{id}/frontend/deploy': 'owned',
  'POST /projects/{id}/compute/deploy': 'owned',
  'POST /projects/{id}/compute/webhook': 'owned',
  'POST /projects/{id}/compute/rollback': 'owned',
  'POST /projects/{id}/compute/restart': 'owned',
  'GET /projects/{id}/compute/logs': 'owned',
  'GET /projects/{id}/build-logs': 'owned',
  'GET /projects/{id}/builds': 'owned',
  'DELETE /projects/{id}/build-cache': 'owned',
  'GET /projects/{id}/previews': 'owned',
  'DELETE /projects/{id}/previews': 'owned',
  'GET /projects/{id}/builds/{buildId}': 'owned',
  'GET /projects/{id}/builds/{buildId}/logs': 'owned',
  'POST /projects/{id}/builds/{buildId}/cancel': 'owned',
  'POST /projects/{id}/builds/{buildId}/redeploy': 'owned',
  'POST /projects/{id}/builds/{buildId}/rollback': 'owned',
  'POST /projects/{id}/deploy-key': 'owned',
  'GET /projects/{id}/mcp': 'owned',
  'POST /projects/{id}/mcp': 'key',
  'POST /builds/{ref}/{build}/credentials': 'key',
  'GET /': 'public',
  'GET /regions': 'public',
  'GET /plans': 'public',
  'GET /backend-types': 'public',
  'GET /health': 'public',
  'GET /openapi.json': 'public',
  'GET /auth/registration': 'public',
  'POST /auth/password/forgot': 'public',
  'POST /auth/password/reset': 'public',
  'POST /auth/verify': 'public',
  'POST /auth/password': 'session',
  'POST /auth/verification': 'session',
  'POST /auth/email': 'session',
  'POST /auth/me/delete': 'session',
  'GET /auth/sessions': 'session',
  'DELETE /auth/sessions/{id}': 'session',
  'GET /admin/accounts': 'administrator',
  'GET /admin/accounts/{id}': 'administrator',
  'PATCH /admin/accounts/{id}': 'administrator',
  'DELETE /admin/accounts/{id}': 'administrator',
  'GET /admin/invitations': 'administrator',
  'POST /admin/invitations': 'administrator',
  'DELETE /admin/invitations/{id}': 'administrator',
  'GET /admin/projects/unassigned': 'administrator',
  'POST /admin/projects/{ref}/owner': 'administrator',
  'PATCH /admin/projects/{ref}': 'administrator',
};

const CANARY = 'canary of the victim';
const ROW = 'row of the victim';
/** A function for the owner's operations. */
const FUNCTION = { name: 'walked', code: "Deno.serve(() => new Response('hello'));" };

interface Operation {
  rule: string;
  method: string;
  path: string;
  /** Body of the first example. */
  body: unknown;
  /** The scope that a personal access token needs. */
  scope: string | undefined;
}

interface DocumentedOperation {
  description?: string;
  requestBody?: { content: { 'application/json'?: { examples?: Record<string, { value: unknown }> } } };
}

type Expected = 'allowed' | 401 | 403 | 404;

interface Caller {
  name: string;
  headers(operation: Operation): Promise<Record<string, string>>;
  expected: Record<Access, Expected>;
  /** Exceptions by operation. */
  except?: Record<string, Expected>;
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

interface Walked {
  platform: Platform;
  owner: Management;
  project: ProjectView;
  /** Ids of the victim's objects, for paths. */
  ids: { id: number; siteId: number; funcId: number; webhookId: number; tokenId: number; sessionId: number };
  document: Operation[];
  callers: Caller[];
}

/** `administrator` registers an account with administrator's rights, and a token with these scopes. */
export function walkRoutes(
  test: Test,
  platform: () => Platform,
  administrator: (scopes: string[]) => Promise<Management>,
): void {
  let walked: Walked;

  test.before(async () => {
    const document = await documented(platform());
    const scopes = new Set(document.flatMap(({ scope }) => (scope ? [scope] : [])));
    walked = await prepare(platform(), document, await administrator([...scopes]));
  });

  test('every operation of the OpenAPI document has a rule, and every rule has an operation', () => {
    assert.equal(walked.document.map(({ rule }) => rule).sort(), Object.keys(RULES).sort());
  });

  for (const index of CALLERS.keys()) {
    test(`every operation allows or rejects the caller ${CALLERS[index]} by its rule`, async () => {
      const caller = walked.callers[index] as Caller;
      assert.is(caller.name, CALLERS[index]);
      for (const operation of walked.document) await check(walked, operation, caller);
    });
  }

  test('the project is unchanged after the calls of all callers', async () => {
    const { owner, project } = walked;
    const now = await owner.untilHealthy(project.id);
    for (const key of ['name', 'ref', 'anon_key', 'service_role_key', 'db_url'] as const)
      assert.is(now[key], project[key], key);
    assert.equal((await owner.query(project.id, 'select note from notes')).rows, [{ note: ROW }]);
    const { body } = await owner.call<{ name: string }[]>('GET', `/projects/${project.id}/functions`);
    assert.equal(
      body.map(({ name }) => name),
      [FUNCTION.name],
    );
  });

  test('every operation allows the project’s owner', async () => {
    const { owner, document } = walked;
    const own: Caller = {
      name: 'owner',
      headers: async () => bearer(owner.token),
      expected: { public: 'allowed', account: 'allowed', session: 403, owned: 'allowed', administrator: 403, key: 401 },
    };
    // DELETE comes last, because other operations need the object.
    const last = document.toSorted((a, b) => Number(a.method === 'DELETE') - Number(b.method === 'DELETE'));
    for (const operation of last.toSorted((a, b) => depth(a) - depth(b))) await check(walked, operation, own);
  });
}

/** Deletes the innermost resources first, after everything else. */
const depth = ({ method, path }: Operation) => (method === 'DELETE' ? 100 - path.split('/').length : 0);

const CALLERS = [
  'nobody',
  'stranger',
  'signed-in stranger',
  'token of other projects',
  'token without the scope',
  'administrator',
  'disabled',
];

async function prepare(platform: Platform, document: Operation[], administrator: Management): Promise<Walked> {
  const [email, password] = [`${randomUUID()}@example.com`, randomUUID()];
  const owner = await Management.register(platform, email, password);
  const stranger = await Management.register(platform);
  const disabled = await Management.register(platform);
  const other = [`${randomUUID()}@example.com`, randomUUID()] as const;
  await Management.register(platform, ...other);
  const session = await signedIn(platform, ...other);
  const project = await owner.untilHealthy((await owner.createProject('walked')).id);
  const second = await owner.untilHealthy((await owner.createProject('second')).id);
  await owner.query(project.id, `create table notes as select '${ROW}' as note`);
  await created(owner, 'PATCH', `/projects/${project.id}`, { env_vars: { CANARY } });
  const fn = await created<{ id: number }>(owner, 'POST', `/projects/${project.id}/functions`, FUNCTION);
  await created(owner, 'POST', `/projects/${project.id}/functions/${fn.id}/deploy`);
  const hook = { url: 'https://receiver.invalid/', events: ['deploy.failed'] };
  const webhook = await created<{ id: number }>(owner, 'POST', `/projects/${project.id}/webhooks`, hook);
  const token = await created<{ id: number }>(owner, 'POST', '/tokens', { name: 'walked' });
  const limited = await created<{ token: string }>(owner, 'POST', '/tokens', {
    name: 'limited',
    project_ids: [second.id],
  });
  const readers = {
    account: await created<{ token: string }>(owner, 'POST', '/tokens', { name: 'a', scopes: ['account:read'] }),
    tokens: await created<{ token: string }>(owner, 'POST', '/tokens', { name: 't', scopes: ['tokens:read'] }),
  };
  await disable(administrator, disabled);
  const base = { public: 'allowed', key: 401 } as const;
  const callers: Caller[] = [
    {
      name: 'nobody',
      headers: async () => ({}),
      expected: { ...base, account: 401, session: 401, owned: 401, administrator: 401 },
    },
    {
      name: 'stranger',
      headers: async () => bearer(stranger.token),
      expected: { ...base, account: 'allowed', session: 403, owned: 404, administrator: 403 },
    },
    {
      name: 'signed-in stranger',
      headers: async () => bearer(session.token),
      expected: { ...base, account: 'allowed', session: 'allowed', owned: 404, administrator: 403 },
      except: { 'DELETE /auth/sessions/{id}': 404 },
    },
    {
      name: 'token of other projects',
      headers: async () => bearer(limited.token),
      expected: { ...base, account: 'allowed', session: 403, owned: 404, administrator: 403 },
      // A token of the same account that is limited to other projects.
      except: { 'DELETE /tokens/{id}': 403, 'POST /projects': 403, 'POST /tokens': 'allowed' },
    },
    {
      name: 'token without the scope',
      headers: async ({ scope }) => bearer((scope === 'account:read' ? readers.tokens : readers.account).token),
      expected: { ...base, account: 403, session: 403, owned: 403, administrator: 403 },
    },
    {
      name: 'administrator',
      headers: async () => bearer(administrator.token),
      expected: { ...base, account: 'allowed', session: 403, owned: 404, administrator: 'allowed' },
    },
    {
      name: 'disabled',
      headers: async () => bearer(disabled.token),
      expected: { ...base, account: 401, session: 401, owned: 401, administrator: 401 },
    },
  ];
  const ids = {
    id: project.id,
    siteId: (await deployedSite(owner)) ?? project.id,
    funcId: fn.id,
    webhookId: webhook.id,
    tokenId: token.id,
    sessionId: (await signedIn(platform, email, password)).id,
  };
  return { platform, owner, project, ids, document, callers };
}

/** Returns a site with a build, or undefined if this installation has no sites. */
async function deployedSite(owner: Management): Promise<number | undefined> {
  const body = { name: 'walked-site', backend_type: 'frontend' };
  const { status, body: site } = await owner.call<{ id: number; code?: string }>('POST', '/projects', body);
  if (status === 400 && site.code === 'backend_type_unavailable') return undefined;
  assert.is(status, 201, JSON.stringify(site));
  await owner.untilHealthy(site.id);
  await created(owner, 'PATCH', `/projects/${site.id}`, { repo_url: 'https://git.invalid/site.git' });
  await created(owner, 'POST', `/projects/${site.id}/deploy`);
  return site.id;
}

async function created<T>(person: Management, method: string, path: string, body?: unknown): Promise<T> {
  const answer = await person.call<T>(method, path, body);
  assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** Returns a user token, and the id of its session. */
async function signedIn(platform: Platform, email: string, password: string): Promise<{ token: string; id: number }> {
  const json = { 'content-type': 'application/json' };
  const login = await platform.network.fetch(`${platform.url}/auth/login`, {
    method: 'POST',
    headers: json,
    body: JSON.stringify({ email, password }),
  });
  const { token } = (await login.json()) as { token: string };
  const response = await platform.network.fetch(`${platform.url}/auth/sessions`, { headers: bearer(token) });
  const sessions = (await response.json()) as { id: number; current: boolean }[];
  return { token, id: sessions.find(({ current }) => current)?.id as number };
}

async function disable(administrator: Management, { email }: Management): Promise<void> {
  const list = await created<{ id: number; email: string }[]>(administrator, 'GET', '/admin/accounts');
  const account = list.find((candidate) => candidate.email === email);
  assert.ok(account, 'the administrator sees the account');
  await created(administrator, 'PATCH', `/admin/accounts/${account.id}`, { disabled: true });
}

async function documented(platform: Platform): Promise<Operation[]> {
  const response = await platform.network.fetch(`${platform.url}/openapi.json`);
  const { paths } = (await response.json()) as { paths: Record<string, Record<string, DocumentedOperation>> };
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([lower, { description = '', requestBody }]) => {
      const method = lower.toUpperCase();
      const examples = requestBody?.content['application/json']?.examples ?? {};
      const scope = /needs the scope `([a-z:]+)`/.exec(description)?.[1];
      return { rule: `${method} ${path}`, method, path, body: Object.values(examples)[0]?.value, scope };
    }),
  );
}

/** Checks one caller's response to one operation. Checks also that only the owner sees data of the victim. */
async function check(walked: Walked, operation: Operation, caller: Caller): Promise<void> {
  const { platform, project } = walked;
  const access = RULES[operation.rule] as Access;
  const expected = caller.except?.[operation.rule] ?? caller.expected[access];
  const response = await platform.network.fetch(`${platform.url}${addressed(walked, operation)}`, {
    method: operation.method,
    headers: {
      ...(await caller.headers(operation)),
      ...(operation.body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(operation.body === undefined ? {} : { body: JSON.stringify(operation.body) }),
  });
  const text = await response.text();
  const what = `${operation.rule} by ${caller.name}: ${response.status} ${text.slice(0, 300)}`;
  if (expected !== 'allowed') assert.is(response.status, expected, what);
  else if (access === 'public') assert.ok(response.status < 500, what);
  // A wrong password in the body returns 401 too.
  else if (access === 'session') assert.ok(response.status < 500 && !/[Tt]he token|a token/.test(text), what);
  else assert.ok(response.status < 500 && ![401, 403].includes(response.status), what);
  if (caller.name === 'owner') return;
  for (const secret of [CANARY, ROW, project.ref, project.service_role_key, project.db_url])
    assert.not.ok(text.includes(secret), `${operation.rule} shows ${caller.name} data of the owner`);
}

const OF_SITES = /^\/projects\/\{id\}\/(deploy|deploy-key|build-logs|build-cache|builds|previews)(\/|$)/;

function addressed({ ids }: Walked, { path, method }: Operation): string {
  if (path.startsWith('/tokens/')) return path.replace('{id}', String(ids.tokenId));
  if (path.startsWith('/auth/sessions/')) return path.replace('{id}', String(ids.sessionId));
  if (!path.startsWith('/projects/')) return path.replaceAll(/\{\w+\}/g, '2147483647');
  const id = OF_SITES.test(path) ? ids.siteId : ids.id;
  const names = {
    '{buildId}': '1',
    '{funcId}': String(ids.funcId),
    '{webhook_id}': String(ids.webhookId),
    '{entry_id}': '1',
    '{service}': 'auth',
    '{name}': 'walked',
  };
  const address = Object.entries(names).reduce(
    (known, [name, value]) => known.replace(name, value),
    path.replace('{id}', String(id)),
  );
  // The only route whose query has a required parameter.
  return method === 'DELETE' && path.endsWith('/previews') ? `${address}?branch=next` : address;
}

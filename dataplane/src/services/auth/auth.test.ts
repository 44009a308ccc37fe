import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { outboundTo } from '@slipway/program/outbound.js';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { decodeJwt } from 'jose';
import pg from 'pg';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createGateway } from '../../gateway/server.js';
import type { OwnerLog } from '../../logs/owner-log.js';
import { signToken, startTestCluster, type TestCluster, type TestProject } from '../../testing/project.js';
import { createManagement } from '../../upstreams/management.js';
import type { Service } from '../service.js';
import { createAuthService } from './index.js';

const log = pino({ level: 'silent' });
let cluster: TestCluster;
let project: TestProject;
let auth: Service;
let gateway: Server;
let url: string;
let owner: pg.Client;

test.before(async () => {
  cluster = await startTestCluster();
  project = await cluster.project('blog');
  auth = createAuthService({ log, outbound: outboundTo(() => true) });
  gateway = createGateway({
    publicUrl: 'http://localhost',
    tenant: (ref) => (ref === project.ref ? project : undefined),
    complete: () => true,
    services: { auth, rest: auth },
    management: createManagement('/nonexistent', 'http://localhost'),
    log,
  });
  await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}/p/blog`;
  owner = new pg.Client(project.owner);
  await owner.connect();
});

test.after(async () => {
  await owner?.end();
  gateway?.closeAllConnections();
  gateway?.close();
  await auth?.close();
  await cluster?.close();
});

const options = { auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false } };
const client = (key = project.anonKey) => createClient(url, key, options);
const admin = () => client(project.serviceRoleKey).auth.admin;

let count = 0;
const newEmail = () => `user${++count}@example.com`;
const password = 'correct horse';

async function signedUp(email = newEmail()): Promise<{ supabase: SupabaseClient; email: string; userId: string }> {
  const supabase = client();
  const { data, error } = await supabase.auth.signUp({ email, password });
  assert.is(error, null);
  return { supabase, email, userId: data.user?.id as string };
}

async function session(supabase: SupabaseClient) {
  const { data } = await supabase.auth.getSession();
  assert.ok(data.session);
  return data.session;
}

const refresh = (refreshToken: string) => client().auth.refreshSession({ refresh_token: refreshToken });

test('a sign-up returns a confirmed user with an e-mail identity, and a session', async () => {
  const email = newEmail();
  const { data, error } = await client().auth.signUp({
    email: email.toUpperCase(),
    password,
    options: { data: { nick: 'Al' } },
  });
  assert.is(error, null);
  const { user, session } = data;
  assert.ok(user && session);
  assert.is(user.email, email);
  assert.is(user.aud, 'authenticated');
  assert.is(user.role, 'authenticated');
  assert.is(user.phone, '');
  assert.is(user.is_anonymous, false);
  assert.is(user.user_metadata.nick, 'Al');
  assert.equal(user.app_metadata, { provider: 'email', providers: ['email'] });
  assert.match(user.email_confirmed_at as string, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  assert.is(user.confirmed_at, user.email_confirmed_at);
  assert.ok(user.last_sign_in_at);
  assert.is(user.identities?.length, 1);
  assert.is(user.identities?.[0]?.provider, 'email');
  const { sub, ...identityData } = user.identities?.[0]?.identity_data ?? {};
  assert.is(sub, user.id);
  assert.equal(identityData, { email, email_verified: true, phone_verified: false, nick: 'Al' });
  assert.is(session.token_type, 'bearer');
  assert.is(session.expires_in, 3600);
});

test('the access token has the claims that policies and clients read', async () => {
  const { supabase, userId, email } = await signedUp();
  const { access_token, expires_at } = await session(supabase);
  const claims = decodeJwt(access_token);
  assert.is(claims.iss, 'http://localhost:4000/p/blog/auth/v1');
  assert.is(claims.sub, userId);
  assert.is(claims.aud, 'authenticated');
  assert.is(claims.role, 'authenticated');
  assert.is(claims.email, email);
  assert.is(claims.exp, expires_at);
  assert.is(claims.aal, 'aal1');
  assert.is((claims.amr as { method: string }[])[0]?.method, 'password');
  assert.ok(claims.session_id);
  assert.is(claims.is_anonymous, false);
});

test('a second sign-up is rejected as user_already_exists', async () => {
  const { email } = await signedUp();
  const { error } = await client().auth.signUp({ email, password });
  assert.is(error?.code, 'user_already_exists');
  assert.is(error?.status, 422);
});

for (const { what, credentials, code } of [
  {
    what: 'a password of five characters',
    credentials: { email: 'a@example.com', password: '12345' },
    code: 'weak_password',
  },
  {
    what: 'a password of 73 bytes',
    credentials: { email: 'a@example.com', password: 'x'.repeat(73) },
    code: 'validation_failed',
  },
  { what: 'an address without @', credentials: { email: 'nobody', password }, code: 'validation_failed' },
  { what: 'a phone number', credentials: { phone: '491701234567', password }, code: 'phone_provider_disabled' },
] as const) {
  test(`a sign-up with ${what} is rejected as ${code}`, async () => {
    const { error } = await client().auth.signUp(credentials);
    assert.is(error?.code, code);
  });
}

test('metadata with a role does not change the user’s role', async () => {
  const { data } = await client().auth.signUp({
    email: newEmail(),
    password,
    options: { data: { role: 'service_role', app_metadata: { role: 'service_role' } } },
  });
  assert.is(decodeJwt(data.session?.access_token as string).role, 'authenticated');
});

test('a user signs in with the password and the address in any letter case', async () => {
  const { email, userId } = await signedUp();
  const { data, error } = await client().auth.signInWithPassword({ email: email.toUpperCase(), password });
  assert.is(error, null);
  assert.is(data.user?.id, userId);
});

test('a wrong password and an unknown address get the same error', async () => {
  const { email } = await signedUp();
  const wrong = await client().auth.signInWithPassword({ email, password: 'wrong horse' });
  const unknown = await client().auth.signInWithPassword({ email: 'nobody@example.com', password });
  assert.is(wrong.error?.code, 'invalid_credentials');
  assert.is(wrong.error?.status, 400);
  assert.equal([wrong.error?.message, wrong.error?.code], [unknown.error?.message, unknown.error?.code]);
});

test('a migrated user with an argon2 hash signs in', async () => {
  const { hash } = ARGON2_OF_PASSWORD;
  const email = newEmail();
  const created = await admin().createUser({ email, password_hash: hash, email_confirm: true });
  assert.is(created.error, null);
  const right = await client().auth.signInWithPassword({ email, password: 'password' });
  assert.is(right.error, null);
  const wrong = await client().auth.signInWithPassword({ email, password: 'passwore' });
  assert.is(wrong.error?.code, 'invalid_credentials');
});

/**
 * A password and its hash by the reference implementation: `echo -n password | argon2 somesalt -id -t 2 -m 16 -p 1 -l
 * 32 -e`.
 */
const ARGON2_OF_PASSWORD = {
  hash: '$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc',
};

test('a hash with excessive cost is rejected without being computed', async () => {
  const { email, userId } = await signedUp();
  await owner.query('update auth.users set encrypted_password = $2 where id = $1', [
    userId,
    `$2b$31$${'a'.repeat(53)}`,
  ]);
  const { error } = await client().auth.signInWithPassword({ email, password });
  assert.is(error?.code, 'invalid_credentials');
});

test('a refresh returns new tokens of the same session and user', async () => {
  const { supabase, userId } = await signedUp();
  const before = await session(supabase);
  const { data, error } = await refresh(before.refresh_token);
  assert.is(error, null);
  assert.is(data.user?.id, userId);
  assert.is.not(data.session?.refresh_token, before.refresh_token);
  const claims = decodeJwt(data.session?.access_token as string);
  assert.is(claims.session_id, decodeJwt(before.access_token).session_id);
});

test('a refresh with the previous token returns the newest one, as the last response may have been lost', async () => {
  const { supabase } = await signedUp();
  const { refresh_token: first } = await session(supabase);
  const { data } = await refresh(first);
  const again = await refresh(first);
  assert.is(again.data.session?.refresh_token, data.session?.refresh_token);
});

test('ten concurrent refreshes with one token all get the same next token', async () => {
  const { supabase } = await signedUp();
  const { refresh_token: first } = await session(supabase);
  const answers = await Promise.all(Array.from({ length: 10 }, () => refresh(first)));
  assert.is(new Set(answers.map(({ data }) => data.session?.refresh_token)).size, 1);
  assert.ok(answers.every(({ error }) => error === null));
});

test('a replayed refresh token revokes every token of its session', async () => {
  const { supabase } = await signedUp();
  const { refresh_token: first } = await session(supabase);
  const second = (await refresh(first)).data.session?.refresh_token as string;
  const third = (await refresh(second)).data.session?.refresh_token as string;
  await owner.query("update auth.refresh_tokens set updated_at = updated_at - interval '11 seconds' where token = $1", [
    first,
  ]);
  const reused = await refresh(first);
  assert.is(reused.error?.code, 'refresh_token_already_used');
  for (const token of [third, second, first]) {
    assert.is((await refresh(token)).error?.code, 'refresh_token_already_used');
  }
});

test('a refresh token may be exchanged again within the reuse interval', async () => {
  const { supabase } = await signedUp();
  const { refresh_token: first } = await session(supabase);
  const second = (await refresh(first)).data.session?.refresh_token as string;
  await refresh(second);
  assert.is((await refresh(first)).error, null);
});

test('a refresh with an unknown token gets the error that the token was not found', async () => {
  const { error } = await refresh('nothing');
  assert.is(error?.code, 'refresh_token_not_found');
  assert.is(error?.status, 400);
});

test('GET /user returns the user of the access token', async () => {
  const { supabase, userId } = await signedUp();
  const { data, error } = await supabase.auth.getUser();
  assert.is(error, null);
  assert.is(data.user?.id, userId);
});

test('a user can also change metadata by the member user_metadata', async () => {
  const { supabase } = await signedUp();
  const { access_token } = await session(supabase);
  const response = await fetch(`${url}/auth/v1/user`, {
    method: 'PUT',
    headers: { apikey: project.anonKey, authorization: `Bearer ${access_token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ user_metadata: { nick: 'Al' } }),
  });
  assert.is(response.status, 200);
  assert.is(((await response.json()) as { user_metadata: { nick: string } }).user_metadata.nick, 'Al');
});

test('a user changes metadata: members are merged, null removes', async () => {
  const { supabase } = await signedUp();
  await supabase.auth.updateUser({ data: { a: 1, b: 2 } });
  const { data, error } = await supabase.auth.updateUser({ data: { b: null, c: { d: null } } });
  assert.is(error, null);
  const { a, b, c } = data.user?.user_metadata ?? {};
  assert.equal({ a, b, c }, { a: 1, b: undefined, c: { d: null } });
});

test('a user changes the address, and signs in with the new one', async () => {
  const { supabase } = await signedUp();
  const email = newEmail();
  const { data, error } = await supabase.auth.updateUser({ email });
  assert.is(error, null);
  assert.is(data.user?.email, email);
  assert.is(data.user?.identities?.[0]?.identity_data?.email, email);
  assert.is((await client().auth.signInWithPassword({ email, password })).error, null);
});

test("a user can't change to another user’s address", async () => {
  const { supabase } = await signedUp();
  const { email } = await signedUp();
  assert.is((await supabase.auth.updateUser({ email })).error?.code, 'email_exists');
});

test('a new password ends all other sessions of the user', async () => {
  const { supabase, email } = await signedUp();
  const other = client();
  await other.auth.signInWithPassword({ email, password });
  assert.is((await supabase.auth.updateUser({ password })).error?.code, 'same_password');
  assert.is((await supabase.auth.updateUser({ password: 'another horse' })).error, null);
  assert.is((await supabase.auth.getUser()).error, null);
  assert.is((await refresh((await session(other)).refresh_token)).error?.code, 'refresh_token_not_found');
  assert.is((await client().auth.signInWithPassword({ email, password })).error?.code, 'invalid_credentials');
});

test("a user can't change app_metadata", async () => {
  const { supabase } = await signedUp();
  const { access_token } = await session(supabase);
  const answer = await request('PUT', '/user', access_token, { app_metadata: { role: 'service_role' } });
  assert.is(answer.status, 403);
  assert.is(answer.body.error_code, 'not_admin');
});

for (const { scope, own, other } of [
  { scope: 'local', own: false, other: true },
  { scope: 'others', own: true, other: false },
  { scope: 'global', own: false, other: false },
] as const) {
  test(`signing out with scope ${scope} revokes those sessions, and their access tokens`, async () => {
    const { supabase, email } = await signedUp();
    const elsewhere = client();
    await elsewhere.auth.signInWithPassword({ email, password });
    const here = await session(supabase);
    const there = await session(elsewhere);
    assert.is((await supabase.auth.signOut({ scope })).error, null);
    for (const [tokens, alive] of [
      [here, own],
      [there, other],
    ] as const) {
      const answer = await request('GET', '/user', tokens.access_token);
      assert.is(answer.status, alive ? 200 : 403);
      if (!alive) assert.is(answer.body.error_code, 'session_not_found');
      assert.is((await refresh(tokens.refresh_token)).error?.code, alive ? undefined : 'refresh_token_not_found');
    }
  });
}

test('an unknown scope of logout is rejected', async () => {
  const { supabase } = await signedUp();
  const answer = await request('POST', '/logout?scope=constructor', (await session(supabase)).access_token);
  assert.is(answer.status, 400);
});

test('administrators list users in pages', async () => {
  for (let i = 0; i < 3; i++) await signedUp();
  const { data, error } = await admin().listUsers({ page: 1, perPage: 2 });
  assert.is(error, null);
  assert.is(data.users.length, 2);
  const { total, nextPage } = data as unknown as { total: number; nextPage: number };
  assert.ok(total >= 3);
  assert.is(nextPage, 2);
  const { headers } = await request('GET', '/admin/users?page=1&per_page=2', project.serviceRoleKey);
  assert.is(
    headers.get('link'),
    `</admin/users?page=2&per_page=2>; rel="next", </admin/users?page=${Math.ceil(total / 2)}&per_page=2>; rel="last"`,
  );
});

test('administrators create, read, change and delete users', async () => {
  const email = newEmail();
  const created = await admin().createUser({ email, password, email_confirm: true, app_metadata: { team: 'x' } });
  assert.is(created.error, null);
  const id = created.data.user?.id as string;
  assert.is(created.data.user?.app_metadata.team, 'x');
  assert.is((await client().auth.signInWithPassword({ email, password })).error, null);
  assert.is((await admin().createUser({ email, password })).error?.code, 'email_exists');
  const updated = await admin().updateUserById(id, { ban_duration: '24h', user_metadata: { nick: 'Al' } });
  assert.is(updated.data.user?.user_metadata.nick, 'Al');
  assert.is((await client().auth.signInWithPassword({ email, password })).error?.code, 'user_banned');
  await admin().updateUserById(id, { ban_duration: 'none' });
  assert.is((await client().auth.signInWithPassword({ email, password })).error, null);
  assert.is((await admin().getUserById(id)).data.user?.email, email);
  assert.is((await admin().deleteUser(id)).error, null);
  assert.is((await admin().getUserById(id)).error?.code, 'user_not_found');
  assert.is((await client().auth.signInWithPassword({ email, password })).error?.code, 'invalid_credentials');
});

test('an access token of a deleted user is rejected', async () => {
  const { supabase, userId } = await signedUp();
  const { access_token } = await session(supabase);
  await admin().deleteUser(userId);
  assert.is((await request('GET', '/user', access_token)).body.error_code, 'user_not_found');
});

test("a softly deleted user can't sign in, and the address is free again", async () => {
  const { email, userId } = await signedUp();
  assert.is((await admin().deleteUser(userId, true)).error, null);
  assert.is((await client().auth.signInWithPassword({ email, password })).error?.code, 'invalid_credentials');
  assert.ok((await admin().getUserById(userId)).data.user?.deleted_at);
  await signedUp(email);
});

test('admin routes reject the anon key and users', async () => {
  const { supabase } = await signedUp();
  const { access_token } = await session(supabase);
  for (const [method, path] of [
    ['GET', '/admin/users'],
    ['POST', '/admin/users'],
    ['GET', '/admin/users/5f6e0c43-0000-4000-8000-000000000000'],
    ['PUT', '/admin/users/5f6e0c43-0000-4000-8000-000000000000'],
    ['DELETE', '/admin/users/5f6e0c43-0000-4000-8000-000000000000'],
  ] as const) {
    for (const token of [project.anonKey, access_token]) {
      const answer = await request(method, path, token);
      assert.is(answer.status, 403);
      assert.is(answer.body.error_code, 'not_admin');
    }
    assert.is((await request(method, path, undefined)).status, 401);
  }
});

test('a token without a user is rejected where a user is needed', async () => {
  assert.is((await request('GET', '/user', project.anonKey)).body.error_code, 'bad_jwt');
  assert.is((await request('GET', '/user', undefined)).body.error_code, 'no_authorization');
  const stranger = await signToken({ role: 'authenticated', sub: "x' or true --" }, project.jwtSecret);
  assert.is((await request('GET', '/user', stranger)).body.error_code, 'bad_jwt');
});

test('an expired access token does not prevent a sign-in', async () => {
  const { email } = await signedUp();
  const expired = await signToken({ role: 'authenticated', exp: 1_000_000 }, project.jwtSecret);
  const answer = await request('POST', '/token?grant_type=password', expired, { email, password });
  assert.is(answer.status, 200);
  assert.is((await request('GET', '/user', expired)).body.error_code, 'bad_jwt');
});

test('errors have the format of the API version that the client requests', async () => {
  const newer = await request('POST', '/signup', undefined, {}, { 'x-supabase-api-version': '2024-01-01' });
  assert.equal(Object.keys(newer.body).sort(), ['code', 'message']);
  assert.is(newer.headers.get('x-supabase-api-version'), '2024-01-01');
  const older = await request('POST', '/signup', undefined, {});
  assert.equal(Object.keys(older.body).sort(), ['code', 'error_code', 'msg']);
  assert.is(older.body.code, 422);
});

for (const { what, body, code } of [
  { what: 'is not JSON', body: '{', code: 'bad_json' },
  { what: 'is empty', body: '', code: 'bad_json' },
  {
    what: 'names neither an address nor a number',
    body: '{"password":"secret-x"}',
    code: 'anonymous_provider_disabled',
  },
  { what: 'is a list', body: '[]', code: 'bad_json' },
  { what: 'has a number for an address', body: '{"email":1,"password":"secret-x"}', code: 'validation_failed' },
  {
    what: 'holds a NUL',
    body: '{"email":"a@example.com","password":"secret-x","data":{"a":"\\u0000"}}',
    code: 'validation_failed',
  },
]) {
  test(`a body that ${what} is rejected as ${code}`, async () => {
    assert.is((await request('POST', '/signup', undefined, body)).body.error_code, code);
  });
}

test('a trigger of the owner on auth.users runs for new users, and its error undoes the sign-up', async () => {
  await owner.query('create table public.profiles (id uuid references auth.users on delete cascade, email text)');
  await owner.query(`create function public.handle_new_user() returns trigger language plpgsql security definer
    set search_path = '' as $$ begin
      if new.email like 'refused%' then raise exception 'secret reason'; end if;
      insert into public.profiles values (new.id, new.email); return new; end $$`);
  await owner.query(`create trigger on_auth_user_created after insert on auth.users
    for each row execute function public.handle_new_user()`);
  const { userId, email } = await signedUp();
  const { rows } = await owner.query('select email from public.profiles where id = $1', [userId]);
  assert.is(rows[0].email, email);
  const refused = await request('POST', '/signup', undefined, { email: 'refused@example.com', password });
  assert.is(refused.status, 500);
  assert.not.match(JSON.stringify(refused.body), /secret reason/);
  const left = await owner.query("select from auth.users where email = 'refused@example.com'");
  assert.is(left.rowCount, 0);
});

test('a sign-up gets 503 with Retry-After while the database server is out of locks', async () => {
  await owner.query(`create function public.short() returns trigger language plpgsql as $$
    begin raise exception 'out of shared memory' using errcode = '53200'; end $$`);
  await owner.query(`create trigger short before insert on auth.users for each row
    when (new.email like 'short%') execute function public.short()`);
  const refused = await request('POST', '/signup', undefined, { email: 'short@example.com', password });
  assert.equal([refused.status, refused.headers.get('retry-after')], [503, '1']);
});

test('users that the owner inserted with SQL in upstream’s format sign in', async () => {
  await owner.query(`insert into auth.users (instance_id, id, aud, role, email, encrypted_password, email_confirmed_at,
    raw_app_meta_data, raw_user_meta_data, created_at, updated_at, confirmation_token, recovery_token)
    values ('00000000-0000-0000-0000-000000000000', gen_random_uuid(), 'authenticated', 'authenticated',
    'seed@example.com', extensions.crypt('seed password', extensions.gen_salt('bf')), now(),
    '{"provider":"email","providers":["email"]}', '{}', now(), now(), '', '')`);
  const { error } = await client().auth.signInWithPassword({ email: 'seed@example.com', password: 'seed password' });
  assert.is(error, null);
});

test('the API roles can read no table of the schema auth', async () => {
  const tables = await owner.query("select tablename from pg_tables where schemaname = 'auth'");
  assert.ok(tables.rows.length > 20);
  for (const { tablename } of tables.rows) {
    for (const role of ['anon', 'authenticated', 'service_role']) {
      const { rows } = await owner.query('select has_table_privilege($1, $2, $3) as may', [
        role,
        `auth.${tablename}`,
        'select, insert, update, delete',
      ]);
      assert.is(rows[0].may, false, `${role} on ${tablename}`);
    }
  }
});

test('an older schema is migrated on the project’s first request', async () => {
  const older = await cluster.project('older');
  const database = new pg.Client(cluster.postgres.admin('p-older'));
  await database.connect();
  await database.query("delete from auth.schema_migrations where version like '%functions'");
  await database.query('drop function auth.uid(), auth.role(), auth.email(), auth.jwt()');
  await database.end();
  const own = createAuthService({ log, outbound: outboundTo(() => true) });
  const server = createGateway({
    publicUrl: 'http://localhost',
    tenant: () => older,
    complete: () => true,
    services: { auth: own, rest: own },
    management: createManagement('/nonexistent', 'http://localhost'),
    log,
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = server.address() as AddressInfo;
    const answers = await Promise.all([1, 2, 3].map(() => fetch(`http://127.0.0.1:${port}/p/older/auth/v1/health`)));
    assert.equal(
      answers.map(({ status }) => status),
      [200, 200, 200],
    );
    const login = new pg.Client(older.owner);
    await login.connect();
    const { rows } = await login.query('select auth.uid() as id');
    await login.end();
    assert.is(rows[0].id, null);
  } finally {
    server.closeAllConnections();
    server.close();
    await own.close();
  }
});

test('GET /settings lists the enabled sign-in methods, and GET /health needs no key', async () => {
  const settings = await request('GET', '/settings', undefined);
  assert.is(settings.body.mailer_autoconfirm, true);
  assert.is((settings.body.external as Record<string, boolean>).email, true);
  assert.is((await fetch(`${url}/auth/v1/health`)).status, 200);
});

test('a client address beyond its rate limit gets 429, and other addresses do not', async () => {
  const own = createAuthService({ log, outbound: outboundTo(() => true), attempts: { burst: 3, perSecond: 0 } });
  const server = createGateway({
    publicUrl: 'http://localhost',
    tenant: () => project,
    complete: () => true,
    services: { auth: own, rest: own },
    management: createManagement('/nonexistent', 'http://localhost'),
    log,
  });
  await new Promise<void>((resolve) => server.listen(0, '::', resolve));
  try {
    const { port } = server.address() as AddressInfo;
    const attempt = async (host: string) => {
      const answer = await fetch(`http://${host}:${port}/p/blog/auth/v1/token?grant_type=password`, {
        method: 'POST',
        headers: { apikey: project.anonKey, 'x-forwarded-for': `10.0.0.${++count}` },
        body: JSON.stringify({ email: 'nobody@example.com', password }),
      });
      return answer.status;
    };
    const statuses = [
      await attempt('127.0.0.1'),
      await attempt('127.0.0.1'),
      await attempt('127.0.0.1'),
      await attempt('127.0.0.1'),
    ];
    assert.equal(statuses, [400, 400, 400, 429]);
    assert.is(await attempt('[::1]'), 400);
  } finally {
    server.closeAllConnections();
    server.close();
    await own.close();
  }
});

test('the owner’s log has each rejected request with its code, and a setting that is not valid', async () => {
  const written: object[] = [];
  const ownerLog: OwnerLog = {
    write: (ref, service, { level, message, facts: { request_id: _, ...facts } = {} }) =>
      void written.push({ ref, service, level, message, ...facts }),
  };
  const own = createAuthService({ log, ownerLog, outbound: outboundTo(() => true) });
  const tenant = { ...project, revision: 'own', authConfig: { GOTRUE_JWT_EXP: 'canary-of-a-value' } };
  const server = createGateway({
    publicUrl: 'http://localhost',
    tenant: () => tenant,
    complete: () => true,
    services: { auth: own, rest: own },
    management: createManagement('/nonexistent', 'http://localhost'),
    log,
    ownerLog,
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = server.address() as AddressInfo;
    const at = `http://127.0.0.1:${port}/p/blog/auth/v1`;
    const body = JSON.stringify({ email: 'nobody@example.com', password: 'a wrong password' });
    const answer = await fetch(`${at}/token?grant_type=password&more=query`, {
      method: 'POST',
      headers: { apikey: project.anonKey },
      body,
    });
    assert.is(answer.status, 400);
    await fetch(`${at}/settings`, { headers: { apikey: 'canary-of-a-key' } });
    const text = JSON.stringify(written);
    for (const hidden of ['nobody@', 'a wrong', 'query', 'canary', project.anonKey]) assert.not.match(text, hidden);
    const request = { ref: 'blog', service: 'auth', level: 'warn' };
    assert.equal(
      written.map((line) => ({ ...line, reason: undefined })),
      [
        { ...request, message: 'setting ignored', key: 'GOTRUE_JWT_EXP', reason: undefined },
        {
          ...request,
          message: 'request rejected',
          method: 'POST',
          path: '/token',
          status: 400,
          code: 'invalid_credentials',
          reason: undefined,
        },
        { ...request, message: 'key or token rejected', method: 'GET', path: '/settings', reason: undefined },
      ],
    );
  } finally {
    server.closeAllConnections();
    server.close();
    await own.close();
  }
});

async function request(
  method: string,
  path: string,
  token: string | undefined,
  body?: object | string,
  headers: Record<string, string> = {},
) {
  const answer = await fetch(`${url}/auth/v1${path}`, {
    method,
    headers: {
      apikey: project.anonKey,
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await answer.text();
  return {
    status: answer.status,
    headers: answer.headers,
    body: (text ? JSON.parse(text) : {}) as Record<string, unknown>,
  };
}

test.run();

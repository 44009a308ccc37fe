/** Admin routes of users, /admin/users, for the project's own server with its service_role key. */
import { randomBytes, randomUUID } from 'node:crypto';
import { duration } from '@slipway/installation/auth-settings.js';
import { inTurns } from '../../../bounds/turns.js';
import { heapOf } from '../../../http/request-body.js';
import { type Body, flag, isUuid, object, readJson, readOptionalJson, text, validEmail, validPhone } from '../body.js';
import { type Answer, type Context, queryOf, requireAdmin } from '../context.js';
import { AuthError, unprocessable, validationFailed } from '../errors.js';
import { checkStrength } from '../policy/password-rules.js';
import { AUDIENCE, jsonRowsOfPage } from '../sessions/session.js';
import { insertUser, refuseTakenAddress, takenId } from '../users/new-user.js';
import { hashPassword, isPasswordHash } from '../users/passwords.js';
import { presentable, type User, userJson } from '../users/user.js';
import {
  confirm,
  endSessions,
  readUser,
  setAppMetadata,
  setBan,
  setEmail,
  setPassword,
  setPhone,
  setRole,
  setUserMetadata,
} from '../users/user-changes.js';

const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 1000;

const SELECT_PAGE = `
select ${userJson('u')} from auth.users u
where u.aud = $1 and ($2::text is null or u.email like '%' || $2 || '%'
or u.raw_user_meta_data ->> 'full_name' ilike '%' || $2 || '%')
order by u.created_at desc, u.id limit $3::int offset $4::bigint`;

const COUNT = `
select count(*) from auth.users u
where u.aud = $1 and ($2::text is null or u.email like '%' || $2 || '%'
or u.raw_user_meta_data ->> 'full_name' ilike '%' || $2 || '%')`;

export async function listUsers(context: Context): Promise<Answer> {
  const { request, pool } = context;
  requireAdmin(request);
  const query = queryOf(context);
  const page = pageNumber(query, 'page', 1, Number.MAX_SAFE_INTEGER / MAX_PAGE_SIZE);
  const size = pageNumber(query, 'per_page', DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE);
  const filter = query.get('filter')?.replaceAll(/[\\%_]/g, '\\$&') || null;
  const [users, count] = await pool.batch([
    { text: SELECT_PAGE, values: [AUDIENCE, filter, size, (page - 1) * size] },
    { text: COUNT, values: [AUDIENCE, filter] },
  ]);
  const reserve = heapOf(request);
  const found: string[] = [];
  const add = (user: User) => {
    const text = JSON.stringify(presentable(user));
    reserve(text.length);
    found.push(text);
  };
  if (users) await inTurns(request.tenant.ref, jsonRowsOfPage<User>(users, add));
  const total = Number(String(count?.rows[0]?.[0]));
  return {
    status: 200,
    body: `{"users":[${found.join(',')}],"aud":"${AUDIENCE}"}`,
    headers: { 'X-Total-Count': String(total), Link: links(page, size, Math.max(1, Math.ceil(total / size))) },
  };
}

function pageNumber(query: URLSearchParams, name: string, otherwise: number, most: number): number {
  const value = query.get(name);
  if (value === null || value === '') return otherwise;
  if (!/^\d{1,15}$/.test(value) || Number(value) < 1) {
    throw validationFailed(`Bad Pagination Parameters: ${name} must be a whole number from 1`);
  }
  return Math.min(Number(value), most);
}

function links(page: number, size: number, last: number): string {
  const link = (to: number, rel: string) => `</admin/users?page=${to}&per_page=${size}>; rel="${rel}"`;
  return [...(page < last ? [link(page + 1, 'next')] : []), link(last, 'last')].join(', ');
}

export async function getUserById({ request, pool }: Context, id: string): Promise<Answer> {
  requireAdmin(request);
  return { status: 200, body: await readUser(pool, userId(id)) };
}

interface Wanted {
  email: string | undefined;
  phone: string | undefined;
  /** Undefined: the field stays unchanged. */
  passwordHash: string | undefined;
  role: string | undefined;
  emailConfirm: boolean;
  phoneConfirm: boolean;
  userMetadata: Record<string, unknown> | undefined;
  appMetadata: Record<string, unknown> | undefined;
  /** End of the ban. Null: not banned; undefined: unchanged. */
  bannedUntil: Date | null | undefined;
}

export async function createUser(context: Context): Promise<Answer> {
  const { request, pool } = context;
  requireAdmin(request);
  const body = await readJson(request);
  const wanted = await parameters(context, body);
  if (!wanted.email && !wanted.phone) {
    throw validationFailed('Cannot create a user without either an email or phone');
  }
  const id = text(body, 'id') ?? randomUUID();
  if (!isUuid(id)) throw validationFailed('ID must conform to the uuid v4 format');
  const statements = insertUser({
    id,
    email: wanted.email ?? null,
    phone: wanted.phone ?? null,
    passwordHash:
      wanted.passwordHash ?? (await hashPassword(request.tenant.ref, randomBytes(32).toString('base64url'))),
    emailConfirmed: wanted.emailConfirm,
    phoneConfirmed: wanted.phoneConfirm,
    role: wanted.role ?? 'authenticated',
    appMetadata: wanted.appMetadata ?? {},
    userMetadata: wanted.userMetadata ?? {},
    bannedUntil: wanted.bannedUntil ?? null,
  });
  return { status: 200, body: await readUser(pool, id, statements, taken) };
}

export async function updateUserById(context: Context, name: string): Promise<Answer> {
  const { request, pool } = context;
  requireAdmin(request);
  const id = userId(name);
  const wanted = await parameters(context, await readJson(request));
  const { email, phone, passwordHash, role, userMetadata, appMetadata, bannedUntil } = wanted;
  const statements = [
    ...(role === undefined ? [] : [setRole(id, role)]),
    ...(wanted.emailConfirm ? confirm(id, 'email') : []),
    ...(wanted.phoneConfirm ? confirm(id, 'phone') : []),
    ...(passwordHash === undefined ? [] : setPassword(id, passwordHash, null)),
    ...(email === undefined ? [] : setEmail(id, email)),
    ...(phone === undefined ? [] : setPhone(id, phone)),
    ...(appMetadata === undefined ? [] : [setAppMetadata(id, appMetadata)]),
    ...(userMetadata === undefined ? [] : [setUserMetadata(id, userMetadata)]),
    ...(bannedUntil === undefined ? [] : [setBan(id, bannedUntil)]),
  ];
  return { status: 200, body: await readUser(pool, id, statements, taken) };
}

async function parameters(context: Context, body: Body): Promise<Wanted> {
  const email = text(body, 'email') || undefined;
  const phone = text(body, 'phone') || undefined;
  return {
    email: email && validEmail(email),
    phone: phone && validPhone(phone),
    role: text(body, 'role') || undefined,
    emailConfirm: flag(body, 'email_confirm'),
    phoneConfirm: flag(body, 'phone_confirm'),
    userMetadata: object(body, 'user_metadata'),
    appMetadata: object(body, 'app_metadata'),
    bannedUntil: bannedUntil(text(body, 'ban_duration') || undefined),
    passwordHash: await passwordHash(context, body),
  };
}

async function passwordHash({ config, request }: Context, body: Body): Promise<string | undefined> {
  const password = text(body, 'password') || undefined;
  const hash = text(body, 'password_hash') || undefined;
  if (password !== undefined && hash !== undefined) {
    throw validationFailed('Only a password or a password hash should be provided');
  }
  if (hash !== undefined && !isPasswordHash(hash)) {
    throw validationFailed('password_hash must be a bcrypt hash of cost 14 or less, or an argon2 hash');
  }
  if (password === undefined) return hash;
  checkStrength(password, config.passwords);
  return hashPassword(request.tenant.ref, password);
}

/** Parses a duration as Go writes it: `24h`, `1h30m`, or `none`. */
function bannedUntil(text: string | undefined): Date | null | undefined {
  if (text === undefined) return undefined;
  if (text === 'none') return null;
  return new Date(Date.now() + Math.min(banSeconds(text), LONGEST_BAN_SECONDS) * 1000);
}

const LONGEST_BAN_SECONDS = 1000 * 365 * 86_400;

function banSeconds(text: string): number {
  try {
    return duration(text);
  } catch {
    throw validationFailed('invalid format for ban duration: use a form such as 24h or 1h30m, or none');
  }
}

export async function deleteUser({ request, pool }: Context, name: string): Promise<Answer> {
  requireAdmin(request);
  const id = userId(name);
  const soft = flag(await readOptionalJson(request), 'should_soft_delete');
  await readUser(pool, id);
  await pool.batch(soft ? softDelete(id) : [{ text: 'delete from auth.users where id = $1::uuid', values: [id] }]);
  return { status: 200, body: {} };
}

/** Makes the user's personal data unreadable, but keeps the rows that refer to the user. */
function softDelete(id: string) {
  const hashed = (column: string) => `encode(sha256((id::text || ${column})::bytea), 'base64')`;
  return [
    {
      text: `
update auth.users set email = ${hashed("coalesce(email, '')")},
  phone = case when phone is not null then left(${hashed('phone')}, 15) end,
  encrypted_password = '', email_change = '', phone_change = '', confirmation_token = '', recovery_token = '',
  email_change_token_current = '', email_change_token_new = '', phone_change_token = '', reauthentication_token = '',
  raw_user_meta_data = '{}', raw_app_meta_data = '{}', deleted_at = now(), updated_at = now()
where id = $1::uuid and deleted_at is null`,
      values: [id],
    },
    {
      text: `update auth.identities set provider_id = ${hashed('provider_id')}, identity_data = '{}', updated_at = now()
where user_id = $1::uuid`,
      values: [id],
    },
    { text: 'delete from auth.mfa_factors where user_id = $1::uuid', values: [id] },
    { text: 'delete from auth.one_time_tokens where user_id = $1::uuid', values: [id] },
    ...endSessions(id),
  ];
}

function userId(name: string): string {
  if (!isUuid(name)) throw new AuthError(404, 'validation_failed', 'user_id must be an UUID');
  return name;
}

function taken(error: unknown): never {
  if (takenId(error)) throw unprocessable('email_exists', 'A user with this id exists already');
  return refuseTakenAddress(error);
}

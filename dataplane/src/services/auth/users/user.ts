/** User as clients see it. The database builds the JSON; absent values are left out here, as upstream does. */
export interface Identity {
  identity_id: string;
  id: string;
  user_id: string;
  identity_data: Record<string, unknown>;
  provider: string;
  [optional: string]: unknown;
}

export interface Factor {
  id: string;
  friendly_name?: string | null;
  factor_type: string;
  status: 'verified' | 'unverified';
  [optional: string]: unknown;
}

export interface User {
  id: string;
  aud: string;
  role: string;
  email: string;
  phone: string;
  app_metadata: Record<string, unknown>;
  user_metadata: Record<string, unknown>;
  identities: Identity[];
  factors?: Factor[] | null;
  is_anonymous: boolean;
  created_at: string;
  updated_at: string;
  [optional: string]: unknown;
}

const utc = (column: string) => `to_char(${column} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
const timeMembers = (table: string, columns: readonly string[]) =>
  columns.map((column) => `'${column}', ${utc(`${table}.${column}`)}`).join(', ');

const USER_TIMES = [
  'email_confirmed_at',
  'invited_at',
  'phone_confirmed_at',
  'confirmation_sent_at',
  'confirmed_at',
  'recovery_sent_at',
  'email_change_sent_at',
  'phone_change_sent_at',
  'reauthentication_sent_at',
  'last_sign_in_at',
  'created_at',
  'updated_at',
  'banned_until',
  'deleted_at',
];
const FACTOR_TIMES = ['created_at', 'updated_at', 'last_challenged_at'];

/** SQL for the factor in row `f` of auth.mfa_factors. */
const factorJson = (f: string) => `json_build_object('id', ${f}.id, 'friendly_name', ${f}.friendly_name,
  'factor_type', ${f}.factor_type, 'status', ${f}.status, ${timeMembers(f, FACTOR_TIMES)})`;

/** SQL for the user in row `u` of auth.users. */
export const userJson = (u: string) => `json_build_object(
  'id', ${u}.id, 'aud', coalesce(${u}.aud, ''), 'role', coalesce(${u}.role, ''),
  'email', coalesce(${u}.email, ''), 'phone', coalesce(${u}.phone, ''),
  ${timeMembers(u, USER_TIMES)},
  'new_email', nullif(${u}.email_change, ''), 'new_phone', nullif(${u}.phone_change, ''),
  'app_metadata', coalesce(${u}.raw_app_meta_data, '{}'), 'user_metadata', coalesce(${u}.raw_user_meta_data, '{}'),
  'is_anonymous', ${u}.is_anonymous,
  'factors', (select json_agg(${factorJson('f')} order by f.created_at)
  from auth.mfa_factors f where f.user_id = ${u}.id),
  'identities', (
    select coalesce(json_agg(json_build_object(
      'identity_id', i.id, 'id', i.provider_id, 'user_id', i.user_id, 'identity_data', i.identity_data,
      'provider', i.provider, ${timeMembers('i', ['last_sign_in_at', 'created_at', 'updated_at'])}, 'email', i.email
    ) order by i.created_at, i.id), '[]')
    from auth.identities i where i.user_id = ${u}.id))`;

export function presentable(user: User): User {
  for (const name of [...USER_TIMES, 'new_email', 'new_phone', 'factors']) if (user[name] === null) delete user[name];
  for (const factor of user.factors ?? []) presentableFactor(factor);
  return user;
}

function presentableFactor(factor: Factor): Factor {
  if (factor.last_challenged_at === null) delete factor.last_challenged_at;
  if (!factor.friendly_name) delete factor.friendly_name;
  return factor;
}

export const hasVerifiedFactor = (user: User) => user.factors?.some(({ status }) => status === 'verified') ?? false;

/** Statements that make a user with its identities; sign-up and administrators use them. */
import type { Statement } from '../sql/pool.js';
import { DatabaseError } from '../sql/pool.js';
import { AUDIENCE } from './session.js';

export interface NewUser {
  id: string;
  email: string | null;
  phone: string | null;
  passwordHash: string | null;
  emailConfirmed: boolean;
  phoneConfirmed: boolean;
  role: string;
  appMetadata: Record<string, unknown>;
  userMetadata: Record<string, unknown>;
  bannedUntil: Date | null;
}

export function insertUser(user: NewUser): Statement[] {
  const { id, email, phone } = user;
  const providers = [...(email ? ['email'] : []), ...(phone ? ['phone'] : [])];
  const appMetadata = { provider: providers[0], providers, ...user.appMetadata };
  const values = [
    id,
    AUDIENCE,
    user.role,
    email,
    phone,
    user.passwordHash ?? '',
    user.emailConfirmed,
    user.phoneConfirmed,
    JSON.stringify(appMetadata),
    JSON.stringify(user.userMetadata),
    user.bannedUntil,
  ];
  const identities = [
    ...(email
      ? [insertIdentity(id, 'email', { email, email_verified: user.emailConfirmed, phone_verified: false })]
      : []),
    ...(phone
      ? [insertIdentity(id, 'phone', { phone, email_verified: false, phone_verified: user.phoneConfirmed })]
      : []),
  ];
  return [{ name: 'auth.new-user', text: INSERT_USER, values }, ...identities];
}

/** The unencoded tokens are empty rather than null: that is what upstream's own code can read. */
const INSERT_USER = `
insert into auth.users (instance_id, id, aud, role, email, phone, encrypted_password, email_confirmed_at,
  phone_confirmed_at, raw_app_meta_data, raw_user_meta_data, banned_until, confirmation_token, recovery_token,
  email_change_token_new, email_change, created_at, updated_at)
values ('00000000-0000-0000-0000-000000000000', $1::uuid, $2, $3, $4, $5, $6,
  case when $7::boolean then now() end, case when $8::boolean then now() end, $9::text::jsonb, $10::text::jsonb,
  $11::timestamptz, '', '', '', '', now(), now())`;

export function insertIdentity(userId: string, provider: string, data: Record<string, unknown>): Statement {
  return {
    name: 'auth.new-identity',
    text: INSERT_IDENTITY,
    values: [userId, provider, JSON.stringify({ sub: userId, ...data })],
  };
}

const INSERT_IDENTITY = `
insert into auth.identities (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
values ($1::text, $1::text::uuid, $3::text::jsonb, $2, now(), now(), now())`;

const UNIQUE_VIOLATION = '23505';
const OF_EMAIL = 'users_email_partial_key';
const OF_PHONE = 'users_phone_key';

/** Which of a user's addresses another has already, when that is why the database refused. */
export function takenAddress(error: unknown): 'email' | 'phone' | undefined {
  if (!(error instanceof DatabaseError) || error.code !== UNIQUE_VIOLATION) return undefined;
  const { constraint } = error.fields;
  return constraint === OF_EMAIL ? 'email' : constraint === OF_PHONE ? 'phone' : undefined;
}

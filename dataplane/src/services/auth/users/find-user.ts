/** Looks a user up by a claimed address. */
import type { Pool, Statement } from '../../../sql/pool.js';
import { AUDIENCE, jsonRows } from '../sessions/session.js';
import { type User, userJson } from './user.js';

export interface FoundUser {
  user: User;
  passwordHash: string | null;
  banned: boolean;
  emailConfirmed: boolean;
  phoneConfirmed: boolean;
}

const data = `json_build_object('user', ${userJson('u')}, 'passwordHash', u.encrypted_password,
  'banned', coalesce(u.banned_until > now(), false), 'emailConfirmed', u.email_confirmed_at is not null,
  'phoneConfirmed', u.phone_confirmed_at is not null)`;

const BY_EMAIL = `
select ${data} from auth.users u where u.email = $1 and u.is_sso_user = false and u.aud = $2 and u.deleted_at is null`;
const BY_PHONE = `
select ${data} from auth.users u where u.phone = $1 and u.is_sso_user = false and u.aud = $2 and u.deleted_at is null`;
const BY_ID = `select ${data} from auth.users u where u.id = $1::uuid and u.aud = $2 and u.deleted_at is null`;

export type Address = { email: string } | { phone: string };

export const byAddress = (address: Address): Statement =>
  'email' in address
    ? { name: 'auth.find.email', text: BY_EMAIL, values: [address.email, AUDIENCE] }
    : { name: 'auth.find.phone', text: BY_PHONE, values: [address.phone, AUDIENCE] };

export const byId = (id: string): Statement => ({ name: 'auth.find.id', text: BY_ID, values: [id, AUDIENCE] });

export async function findUser(pool: Pool, statement: Statement): Promise<FoundUser | undefined> {
  const [result] = await pool.batch([statement], { repeatable: true });
  return jsonRows<FoundUser>(result)[0];
}

/** Statements that create a user with its identities, for every kind of sign-up. */
import type { Statement } from '../../../sql/pool.js';
import { DatabaseError } from '../../../sql/pool.js';
import type { Context } from '../context.js';
import { deviceOf } from '../context.js';
import { emailExists, phoneExists } from '../errors.js';
import { invokeHook } from '../hooks/invoke.js';
import { AUDIENCE } from '../sessions/session.js';

export interface NewIdentity {
  provider: string;
  /** Id of the person at the provider; for e-mail and phone, the user's own id. */
  providerId: string;
  data: Record<string, unknown>;
}

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
  /** Metadata of the sign-up, which the identity of the address also stores. */
  signUpData?: Record<string, unknown>;
  bannedUntil: Date | null;
  anonymous?: boolean;
  invited?: boolean;
  /** Identity at an external provider; identities of addresses are derived. */
  identity?: NewIdentity;
}

/** Returns a user who signs up alone, without fields that only administrators may set. */
export const ordinaryUser = (id: string, rest: Partial<NewUser> & Pick<NewUser, 'userMetadata'>): NewUser => ({
  id,
  email: null,
  phone: null,
  passwordHash: null,
  emailConfirmed: false,
  phoneConfirmed: false,
  role: AUDIENCE,
  appMetadata: {},
  bannedUntil: null,
  ...rest,
});

/** Returns the metadata that upstream gives to users who sign up with an address. */
export const addressMetadata = (user: {
  id: string;
  email?: string | null;
  phone?: string | null;
  verified?: boolean;
}) => ({
  sub: user.id,
  ...(user.email ? { email: user.email } : {}),
  ...(user.phone ? { phone: user.phone } : {}),
  email_verified: Boolean(user.email && user.verified),
  phone_verified: Boolean(user.phone && user.verified),
});

/** Calls the project's hook, which may reject the user. */
export async function allowNewUser(context: Context, user: NewUser): Promise<void> {
  if (context.config.hooks.before_user_created === undefined) return;
  const { appMetadata, identities } = derived(user);
  const now = new Date().toISOString();
  await invokeHook(context, 'before_user_created', {
    metadata: {
      uuid: context.request.requestId,
      time: now,
      name: 'before-user-created',
      ip_address: deviceOf(context.request).address,
    },
    user: {
      id: user.id,
      aud: AUDIENCE,
      role: user.role,
      email: user.email ?? '',
      phone: user.phone ?? '',
      app_metadata: appMetadata,
      user_metadata: user.userMetadata,
      identities: identities.map(({ provider, data }) => ({ provider, identity_data: data })),
      is_anonymous: user.anonymous ?? false,
      created_at: now,
      updated_at: now,
    },
  });
}

function derived(user: NewUser): { appMetadata: Record<string, unknown>; identities: NewIdentity[] } {
  const { id, email, phone } = user;
  // The addresses of an identity are only those to be verified, never those of the metadata.
  const { email: _, phone: __, ...metadata } = user.signUpData ?? {};
  const identities: NewIdentity[] = [];
  if (user.identity) identities.push(user.identity);
  else {
    const verified = { email_verified: user.emailConfirmed, phone_verified: user.phoneConfirmed };
    if (email) {
      const data = { ...metadata, sub: id, email, ...verified, phone_verified: false };
      identities.push({ provider: 'email', providerId: id, data });
    }
    if (phone) {
      const data = { ...metadata, sub: id, phone, ...verified, email_verified: false };
      identities.push({ provider: 'phone', providerId: id, data });
    }
  }
  const providers = identities.map(({ provider }) => provider);
  const named = providers.length > 0 ? { provider: providers[0], providers } : {};
  return { appMetadata: { ...named, ...user.appMetadata }, identities };
}

/** Returns the identity of the address that the user signed up with. */
export const firstIdentity = (user: NewUser): NewIdentity => derived(user).identities[0] as NewIdentity;

export function insertUser(user: NewUser): Statement[] {
  const { appMetadata, identities } = derived(user);
  const values = [
    user.id,
    AUDIENCE,
    user.role,
    user.email,
    user.phone,
    user.passwordHash ?? '',
    user.emailConfirmed,
    user.phoneConfirmed,
    JSON.stringify(appMetadata),
    JSON.stringify(user.userMetadata),
    user.bannedUntil,
    user.anonymous ?? false,
    user.invited ?? false,
  ];
  return [
    { name: 'auth.new-user', text: INSERT_USER, values },
    ...identities.map((identity) => insertIdentity(user.id, identity)),
  ];
}

/**
 * Statement that inserts a user. Tokens that do not exist are empty rather than null, because upstream's code requires
 * this.
 */
const INSERT_USER = `
insert into auth.users (instance_id, id, aud, role, email, phone, encrypted_password, email_confirmed_at,
  phone_confirmed_at, raw_app_meta_data, raw_user_meta_data, banned_until, is_anonymous, invited_at, confirmation_token,
  recovery_token, email_change_token_new, email_change, created_at, updated_at)
values ('00000000-0000-0000-0000-000000000000', $1::uuid, $2, $3, $4, $5, $6,
  case when $7::boolean then now() end, case when $8::boolean then now() end, $9::text::jsonb, $10::text::jsonb,
  $11::timestamptz, $12::boolean, case when $13::boolean then now() end, '', '', '', '', now(), now())`;

export const insertIdentity = (userId: string, { provider, providerId, data }: NewIdentity): Statement => ({
  name: 'auth.new-identity',
  text: INSERT_IDENTITY,
  values: [userId, provider, JSON.stringify(data), providerId],
});

const INSERT_IDENTITY = `
insert into auth.identities (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
values ($4, $1::uuid, $3::text::jsonb, $2, now(), now(), now())`;

const UNIQUE_VIOLATION = '23505';
const OF_EMAIL = 'users_email_partial_key';
const OF_PHONE = 'users_phone_key';

/** Returns the address that another user has, if the database rejected the statement for it. */
export function takenAddress(error: unknown): 'email' | 'phone' | undefined {
  if (!(error instanceof DatabaseError) || error.code !== UNIQUE_VIOLATION) return undefined;
  const { constraint } = error.fields;
  return constraint === OF_EMAIL ? 'email' : constraint === OF_PHONE ? 'phone' : undefined;
}

export function refuseTakenAddress(error: unknown): never {
  const address = takenAddress(error);
  if (address === 'email') throw emailExists();
  if (address === 'phone') throw phoneExists();
  throw error;
}

const OF_ID = 'users_pkey';
export const takenId = (error: unknown): boolean =>
  error instanceof DatabaseError && error.code === UNIQUE_VIOLATION && error.fields.constraint === OF_ID;

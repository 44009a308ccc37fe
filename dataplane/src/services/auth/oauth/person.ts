/**
 * Maps a provider's person to a user: the user with this identity, a user whose verified address the provider has
 * verified too, or a new user.
 */
import { randomUUID } from 'node:crypto';
import type { ProviderConfig } from '@slipway/installation/auth-settings.js';
import { canMail, confirmsEmail } from '@slipway/installation/auth-settings.js';
import type { Statement } from '../../../sql/pool.js';
import type { Context } from '../context.js';
import { AuthError, emailExists, forbidden, unprocessable } from '../errors.js';
import { mailCode } from '../messages.js';
import { jsonRows } from '../sessions/session.js';
import { byAddress, findUser } from '../users/find-user.js';
import { allowNewUser, insertIdentity, insertUser, ordinaryUser, takenAddress } from '../users/new-user.js';
import type { User } from '../users/user.js';
import { confirm, endSessions, forgetTokens, readUser, setProviders, setUserMetadata } from '../users/user-changes.js';

export interface Person {
  /** Id of the person at the provider. */
  id: string;
  email: string | undefined;
  emailVerified: boolean;
  /** Claims to store, under upstream's names. */
  data: Record<string, unknown>;
}

interface Owner {
  userId: string;
  banned: boolean;
  /** Address of the user. Empty if there is none. */
  email: string;
  emailConfirmed: boolean;
}

const OWNER = `
select json_build_object('userId', u.id, 'banned', coalesce(u.banned_until > now(), false) or u.deleted_at is not null,
  'email', coalesce(u.email, ''), 'emailConfirmed', u.email_confirmed_at is not null)
from auth.identities i join auth.users u on u.id = i.user_id where i.provider = $1 and i.provider_id = $2`;

/** Returns the id of the user to sign in. */
export async function signInPerson(context: Context, provider: ProviderConfig, person: Person): Promise<string> {
  const owner = await ownerOf(context, provider, person);
  if (owner !== undefined) {
    if (owner.banned) throw forbidden('user_banned', 'User is banned');
    await requireProven(context, owner, provider, person);
    await context.pool.batch([refreshIdentity(provider, person), setUserMetadata(owner.userId, person.data)]);
    return owner.userId;
  }
  if (!person.email && !provider.emailOptional) {
    throw new AuthError(500, 'unexpected_failure', 'Error getting user email from external provider');
  }
  const linked = person.email && person.emailVerified ? await linkByEmail(context, provider, person) : undefined;
  return linked ?? newPerson(context, provider, person);
}

/** Rejects a user without a verified address, unless the provider has verified it by now. */
async function requireProven(context: Context, owner: Owner, provider: ProviderConfig, person: Person): Promise<void> {
  if (owner.email === '' || owner.emailConfirmed || !confirmsEmail(context.config)) return;
  if (!person.emailVerified || person.email?.toLowerCase() !== owner.email.toLowerCase()) {
    return refuseUntilProven(context, owner.userId, provider);
  }
  await context.pool.batch(confirm(owner.userId, 'email'));
}

/** Adds the identity to a signed-in user who requests it. */
export async function linkPerson(
  context: Context,
  userId: string,
  provider: ProviderConfig,
  person: Person,
): Promise<void> {
  const owner = await ownerOf(context, provider, person);
  if (owner !== undefined) {
    throw unprocessable(
      'identity_already_exists',
      owner.userId === userId ? 'Identity is already linked' : 'Identity is already linked to another user',
    );
  }
  await context.pool.batch([
    ...addIdentity(userId, provider, person),
    ...(await adoptAddress(context, userId, person)),
  ]);
}

async function ownerOf({ pool }: Context, provider: ProviderConfig, person: Person): Promise<Owner | undefined> {
  const [result] = await pool.batch([{ name: 'auth.identity.owner', text: OWNER, values: [provider.name, person.id] }]);
  return jsonRows<Owner>(result)[0];
}

const refreshIdentity = (provider: ProviderConfig, { id, data }: Person): Statement => ({
  name: 'auth.identity.refresh',
  text: `
update auth.identities set identity_data = $3::text::jsonb, last_sign_in_at = now(), updated_at = now()
where provider = $1 and provider_id = $2`,
  values: [provider.name, id, JSON.stringify(data)],
});

const addIdentity = (userId: string, provider: ProviderConfig, { id, data }: Person): Statement[] => [
  insertIdentity(userId, { provider: provider.name, providerId: id, data }),
  setProviders(userId),
  setUserMetadata(userId, data),
];

async function linkByEmail(context: Context, provider: ProviderConfig, person: Person): Promise<string | undefined> {
  const known = await findUser(context.pool, byAddress({ email: person.email as string }));
  if (known === undefined) return undefined;
  if (known.banned) throw forbidden('user_banned', 'User is banned');
  const { id } = known.user;
  const proven = known.emailConfirmed && (confirmsEmail(context.config) || isVouchedFor(known.user));
  await context.pool.batch([
    ...(proven ? [] : forgetUnproven(id)),
    ...addIdentity(id, provider, person),
    ...confirm(id, 'email'),
  ]);
  return id;
}

/** True if a provider has verified the address. Without confirmation mails, there is no other proof. */
const isVouchedFor = ({ email, identities }: User): boolean =>
  identities.some(
    ({ provider, identity_data: claims }) =>
      provider !== 'email' && provider !== 'phone' && claims.email === email && claims.email_verified === true,
  );

/**
 * Removes credentials and data of an unverified user: password, other addresses, sessions, identities. The person who
 * signed up first with the address may not own it.
 */
const forgetUnproven = (id: string): Statement[] => [
  {
    text: `
update auth.users set encrypted_password = '', raw_user_meta_data = '{}', phone = null, phone_confirmed_at = null,
  email_change = '', phone_change = '' where id = $1::uuid`,
    values: [id],
  },
  { text: 'delete from auth.identities where user_id = $1::uuid', values: [id] },
  ...endSessions(id),
  { text: 'delete from auth.mfa_factors where user_id = $1::uuid', values: [id] },
  ...forgetTokens(id),
  { text: 'delete from auth.flow_state where user_id = $1::uuid or linking_target_id = $1::uuid', values: [id] },
];

async function newPerson(context: Context, provider: ProviderConfig, person: Person): Promise<string> {
  const { config, pool } = context;
  if (config.disableSignup) throw unprocessable('signup_disabled', 'Signups not allowed for this instance');
  const id = randomUUID();
  const proven = person.emailVerified || !confirmsEmail(config);
  const user = ordinaryUser(id, {
    email: person.email ?? null,
    emailConfirmed: person.email !== undefined && proven,
    userMetadata: person.data,
    identity: { provider: provider.name, providerId: person.id, data: person.data },
  });
  await allowNewUser(context, user);
  await pool.batch(insertUser(user)).catch((error: unknown) => {
    // Only the provider's own proof may lead to an existing user.
    throw takenAddress(error) ? emailExists() : error;
  });
  if (person.email !== undefined && !proven) await refuseUntilProven(context, id, provider);
  return id;
}

async function refuseUntilProven(context: Context, id: string, { name }: ProviderConfig): Promise<never> {
  if (canMail(context.config)) {
    const user = await readUser(context.pool, id);
    if (user.email) context.limits.email(context, 'signup', user.email);
    await mailCode(context, user, 'signup', { challenge: undefined, redirectTo: null });
  }
  throw unprocessable(
    'provider_email_needs_verification',
    `Unverified email with ${name}. A confirmation email has been sent to your ${name} email`,
  );
}

/** Gives an anonymous user the provider's address, if it is verified and free. */
async function adoptAddress({ pool }: Context, userId: string, { email, emailVerified }: Person): Promise<Statement[]> {
  const free = email !== undefined && emailVerified && (await findUser(pool, byAddress({ email }))) === undefined;
  return [
    {
      text: `
update auth.users set is_anonymous = false, updated_at = now(),
  email = case when coalesce(email, '') = '' then coalesce($2::text, email) else email end,
  email_confirmed_at =
  case when coalesce(email, '') = '' and $2::text is not null then now() else email_confirmed_at end
where id = $1::uuid`,
      values: [userId, free ? email : null],
    },
  ];
}

/** Routes of the caller's identities, /user/identities: add an identity, and remove one unless it is the last. */
import type { Statement } from '../../../sql/pool.js';
import { isUuid } from '../body.js';
import { type Answer, type Context, ok, queryOf, redirect } from '../context.js';
import { notFound, unprocessable } from '../errors.js';
import { authorizationUrl } from '../oauth/authorize.js';
import { requireSecondFactor, signedInUser } from '../sessions/signed-in-user.js';
import { inTransaction } from '../transaction.js';
import { takenAddress } from '../users/new-user.js';
import { forgetTokens, setProviders } from '../users/user-changes.js';

export function requireManualLinking({ config }: Context): void {
  if (!config.manualLinking) throw notFound('manual_linking_disabled', 'Manual linking is disabled');
}

export async function authorizeIdentity(context: Context): Promise<Answer> {
  requireManualLinking(context);
  const signedIn = await signedInUser(context);
  requireSecondFactor(signedIn, 403, 'AAL2 session is required to link an identity when MFA is enabled.');
  const url = await authorizationUrl(context, signedIn.user.id);
  return queryOf(context).get('skip_http_redirect') === 'true' ? ok({ url }) : redirect(url, 302);
}

export async function deleteIdentity(context: Context, id: string): Promise<Answer> {
  requireManualLinking(context);
  if (!isUuid(id)) throw notFound('validation_failed', 'identity_id must be an UUID');
  const signedIn = await signedInUser(context);
  requireSecondFactor(signedIn, 403, 'AAL2 session is required to unlink an identity when MFA is enabled.');
  const userId = signedIn.user.id;
  await inTransaction(context.pool, async (work) => {
    // Locks the user, so that concurrent requests can't remove the last two identities.
    const email = await work.first<string>({
      text: 'select to_json(coalesce(email, $2)) from auth.users where id = $1::uuid for update',
      values: [userId, ''],
    });
    const identities = await work.first<KeptIdentity[]>({ text: IDENTITIES, values: [userId] });
    const unlinked = identities?.find((identity) => identity.identity_id === id.toLowerCase());
    if (unlinked === undefined) throw notFound('identity_not_found', "Identity doesn't exist");
    if ((identities?.length ?? 0) <= 1) {
      throw unprocessable('single_identity_not_deletable', 'User must have at least 1 identity after unlinking');
    }
    await work.run([
      { text: 'delete from auth.identities where id = $1::uuid', values: [id] },
      ...(unlinked.provider === 'phone' ? [FORGET_PHONE(userId)] : []),
      ...(unlinked.provider === 'email' ? [FORGET_PASSWORD(userId)] : []),
      setProviders(userId),
    ]);
    const left = (identities ?? []).filter((identity) => identity !== unlinked);
    if (email && !left.some((identity) => identity.email === email))
      await work.run(changeAddress(userId, left)).catch(asConflict);
  });
  return ok();
}

interface KeptIdentity {
  identity_id: string;
  provider: string;
  email: string | null;
  verified: boolean;
}

const IDENTITIES = `
select coalesce(json_agg(json_build_object('identity_id', id, 'provider', provider, 'email', email,
  'verified', identity_data ->> 'email_verified' = 'true') order by created_at, id), '[]')
from auth.identities where user_id = $1::uuid`;

/**
 * Replaces the address of an unlinked identity, whose mailbox could otherwise still sign in. Only an address that
 * another identity has verified replaces it, because an unverified one may be a stranger's.
 */
function changeAddress(userId: string, left: readonly KeptIdentity[]): Statement[] {
  const next = left.find(({ email, verified }) => email && verified)?.email ?? null;
  return [
    {
      text: `
update auth.users set email = $2::text, email_confirmed_at = case when $2::text is not null then now() end
where id = $1::uuid`,
      values: [userId, next],
    },
    ...forgetTokens(userId),
  ];
}

function asConflict(error: unknown): never {
  if (!takenAddress(error)) throw error;
  throw unprocessable('email_conflict_identity_not_deletable', 'Unable to unlink identity due to email conflict');
}

const FORGET_PHONE = (id: string) => ({
  text: 'update auth.users set phone = null, phone_confirmed_at = null where id = $1::uuid',
  values: [id],
});
/** The password belongs to the removed identity. */
const FORGET_PASSWORD = (id: string) => ({
  text: "update auth.users set encrypted_password = '' where id = $1::uuid",
  values: [id],
});

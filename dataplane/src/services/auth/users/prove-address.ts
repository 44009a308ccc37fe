/** Applies a used code or link: marks the address that received it as the user's. */
import { otpExpired } from '../errors.js';
import type { Work } from '../transaction.js';
import { clearToken, type TokenType, type UsedToken } from './one-time-token.js';
import { confirm, setEmail, setPhone } from './user-changes.js';

interface State {
  banned: boolean;
  email: string | null;
  phone: string | null;
  emailChange: string | null;
  phoneChange: string | null;
  halfDone: boolean;
}

const LOCK = `
select json_build_object('banned', coalesce(banned_until > now(), false) or deleted_at is not null,
  'email', email, 'phone', phone, 'emailChange', email_change, 'phoneChange', phone_change,
  'halfDone', coalesce(email_change_confirm_status, 0) > 0)
from auth.users where id = $1::uuid for no key update`;

/** `half`: one of the two links of a change of address was used; the other is outstanding. */
export async function prove(
  work: Work,
  used: UsedToken,
  verifies: string,
  bothAddresses: boolean,
): Promise<'proven' | 'half' | 'banned'> {
  const { userId, type } = used;
  const state = await work.first<State>({ text: LOCK, values: [userId] });
  if (state === undefined || state.banned) return 'banned';
  // A former address of the user may belong to somebody else by now.
  if (used.address !== provenBy(type, verifies, state)) throw otpExpired();
  await work.run([clearToken(userId, type)]);
  if (type === 'phone_change_token') {
    await work.run([...setPhone(userId, used.address), ...confirm(userId, 'phone')]);
  } else if (type === 'email_change_token_current' || type === 'email_change_token_new') {
    if (!state.emailChange) throw otpExpired();
    if (bothAddresses && state.email && !state.halfDone) {
      await work.run([HALF_DONE(userId)]);
      return 'half';
    }
    await work.run([...setEmail(userId, state.emailChange), ...confirm(userId, 'email'), NAME_EMAIL(userId)]);
  } else {
    await work.run(confirm(userId, verifies === 'sms' ? 'phone' : 'email'));
  }
  return 'proven';
}

/** Returns the address to which a token of this type must have been sent. */
function provenBy(type: TokenType, verifies: string, state: State): string | null {
  if (type === 'phone_change_token') return state.phoneChange;
  if (type === 'email_change_token_new') return state.emailChange;
  return verifies === 'sms' ? state.phone : state.email;
}

const HALF_DONE = (userId: string) => ({
  text: 'update auth.users set email_change_confirm_status = 1, updated_at = now() where id = $1::uuid',
  values: [userId],
});

/** Updates the metadata that names the address. */
const NAME_EMAIL = (userId: string) => ({
  text: `
update auth.users set raw_user_meta_data = raw_user_meta_data || jsonb_build_object('email', email)
where id = $1::uuid and raw_user_meta_data ? 'email'`,
  values: [userId],
});

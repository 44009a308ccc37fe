/** What a used code or link changes: the address it was sent to is its user's. */
import { clearToken, type UsedToken } from './one-time-token.js';
import type { Work } from './transaction.js';
import { confirm, setEmail, setPhone } from './user-changes.js';

interface State {
  banned: boolean;
  emailChange: string | null;
  phoneChange: string | null;
  email: string | null;
  halfDone: boolean;
}

const LOCK = `
select json_build_object('banned', coalesce(banned_until > now(), false) or deleted_at is not null,
  'email', email, 'emailChange', email_change, 'phoneChange', phone_change,
  'halfDone', coalesce(email_change_confirm_status, 0) > 0)
from auth.users where id = $1::uuid for update`;

/** `half`: one of the two links of a change of address; the other is still to come. */
export async function prove(
  work: Work,
  used: UsedToken,
  verifies: string,
  bothAddresses: boolean,
): Promise<'proven' | 'half' | 'banned'> {
  const { userId, type } = used;
  const state = await work.first<State>({ text: LOCK, values: [userId] });
  if (state === undefined || state.banned) return 'banned';
  await work.run([clearToken(userId, type)]);
  if (type === 'phone_change_token') {
    if (state.phoneChange !== used.address) return 'banned';
    await work.run([...setPhone(userId, used.address), ...confirm(userId, 'phone')]);
  } else if (type === 'email_change_token_current' || type === 'email_change_token_new') {
    if (bothAddresses && state.email && !state.halfDone) {
      await work.run([HALF_DONE(userId)]);
      return 'half';
    }
    if (!state.emailChange) return 'banned';
    await work.run([...setEmail(userId, state.emailChange), ...confirm(userId, 'email'), DONE(userId)]);
  } else {
    await work.run(confirm(userId, verifies === 'sms' ? 'phone' : 'email'));
  }
  return 'proven';
}

const HALF_DONE = (userId: string) => ({
  text: 'update auth.users set email_change_confirm_status = 1, updated_at = now() where id = $1::uuid',
  values: [userId],
});

const DONE = (userId: string) => ({
  text: `
update auth.users set email_change_confirm_status = 0, email_change_token_new = '', email_change_token_current = '',
  raw_user_meta_data = coalesce(raw_user_meta_data, '{}')
    || case when raw_user_meta_data ? 'email' then jsonb_build_object('email', email) else '{}' end
where id = $1::uuid`,
  values: [userId],
});

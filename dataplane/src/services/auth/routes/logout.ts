/**
 * Route POST /logout: ends this session, all sessions of the user, or all others. An ended session can't be refreshed.
 */
import type { Statement } from '../../../sql/pool.js';
import { type Answer, type Context, queryOf } from '../context.js';
import { validationFailed } from '../errors.js';
import { signedInUser } from '../sessions/signed-in-user.js';
import { endSessions } from '../users/user-changes.js';

const END: Readonly<Record<string, (userId: string, sessionId: string | null) => Statement[]>> = {
  global: (userId) => endSessions(userId),
  local: (userId, sessionId) => [
    {
      name: 'auth.logout.local',
      text: 'delete from auth.sessions where user_id = $1::uuid and id = $2::uuid',
      values: [userId, sessionId],
    },
  ],
  others: endSessions,
};

export async function logout(context: Context): Promise<Answer> {
  const scope = queryOf(context).get('scope') || 'global';
  const end = Object.hasOwn(END, scope) ? END[scope] : undefined;
  if (end === undefined) throw validationFailed(`Unsupported logout scope ${JSON.stringify(scope)}`);
  const { user, sessionId } = await signedInUser(context);
  await context.pool.batch(end(user.id, sessionId));
  return { status: 204 };
}

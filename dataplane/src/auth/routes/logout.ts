/** POST /logout: ends this session, all of the user's, or all others. A session that is gone can't be refreshed. */
import type { Answer, Context } from '../context.js';
import { validationFailed } from '../errors.js';
import { signedInUser } from '../signed-in-user.js';

const DELETE_BY_SCOPE: Readonly<Record<string, string>> = {
  global: 'delete from auth.sessions where user_id = $1::uuid',
  local: 'delete from auth.sessions where user_id = $1::uuid and id = $2::uuid',
  others: 'delete from auth.sessions where user_id = $1::uuid and id is distinct from $2::uuid',
};

export async function logout(context: Context): Promise<Answer> {
  const scope = new URLSearchParams(context.request.query).get('scope') || 'global';
  const text = Object.hasOwn(DELETE_BY_SCOPE, scope) ? DELETE_BY_SCOPE[scope] : undefined;
  if (text === undefined) throw validationFailed(`Unsupported logout scope ${JSON.stringify(scope)}`);
  const { user, sessionId } = await signedInUser(context);
  await context.pool.batch([
    { name: `auth.logout.${scope}`, text, values: scope === 'global' ? [user.id] : [user.id, sessionId] },
  ]);
  return { status: 204 };
}

/** Admin routes of second factors, /admin/users/{id}/factors. */
import { isUuid } from '../body.js';
import { type Answer, type Context, ok, requireAdmin } from '../context.js';
import { notFound } from '../errors.js';
import { removeFactor } from '../mfa/factors.js';
import { readUser } from '../users/user-changes.js';

export async function listFactors(context: Context, userId: string): Promise<Answer> {
  return ok((await userOf(context, userId)).factors ?? []);
}

export async function deleteFactor(context: Context, userId: string, id: string): Promise<Answer> {
  const { factors = [] } = await userOf(context, userId);
  const factor = factors?.find((each) => each.id === id.toLowerCase());
  if (factor === undefined) throw notFound('mfa_factor_not_found', 'Factor not found');
  await context.pool.batch(removeFactor(factor.id));
  return ok(factor);
}

function userOf(context: Context, id: string) {
  requireAdmin(context.request);
  if (!isUuid(id)) throw notFound('validation_failed', 'user_id must be an UUID');
  return readUser(context.pool, id);
}

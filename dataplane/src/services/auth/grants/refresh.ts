/** Grant by a refresh token: returns the next tokens of the token's session. */
import { readJson, text } from '../body.js';
import { type Answer, type Context, deviceOf, ok } from '../context.js';
import { validationFailed } from '../errors.js';
import { grant } from '../sessions/grant.js';
import { exchange } from '../sessions/refresh.js';

export async function refreshGrant(context: Context): Promise<Answer> {
  const { request, pool, config } = context;
  const refreshToken = text(await readJson(request), 'refresh_token');
  if (!refreshToken) throw validationFailed('refresh_token required');
  try {
    const exchanged = await exchange(pool, refreshToken, deviceOf(request), config.sessions);
    return ok(await grant(context, exchanged, exchanged.refreshToken, 'token_refresh'));
  } catch (error) {
    // Only failures count as attempts, because a caller with a valid token isn't guessing.
    context.limits.byAddress('attempts', context);
    throw error;
  }
}

/** The next tokens of a session, for its refresh token. */
import { readJson, text } from '../body.js';
import { type Answer, type Context, deviceOf, ok } from '../context.js';
import { validationFailed } from '../errors.js';
import { grant } from '../grant.js';
import { exchange } from '../refresh.js';

export async function refreshGrant(context: Context): Promise<Answer> {
  const { request, pool, config } = context;
  const refreshToken = text(await readJson(request), 'refresh_token');
  if (!refreshToken) throw validationFailed('refresh_token required');
  try {
    const exchanged = await exchange(pool, refreshToken, deviceOf(request), config.sessions);
    return ok(await grant(context, exchanged, exchanged.refreshToken, 'token_refresh'));
  } catch (error) {
    // Who holds a good token isn't guessing: only failures count as attempts.
    context.limits.byAddress('attempts', context);
    throw error;
  }
}

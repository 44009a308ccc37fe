/** Grant by the code from a link or provider, and by the verifier that only the requesting app has. */
import { readJson, text } from '../body.js';
import { type Answer, type Context, ok } from '../context.js';
import { AuthError, validationFailed } from '../errors.js';
import { checkVerifier, type Flow, takeFlow } from '../sessions/flow-state.js';
import { jsonRows } from '../sessions/session.js';
import { startSessionOrRefuse } from '../sessions/sign-in.js';

export async function pkceGrant(context: Context): Promise<Answer> {
  context.limits.byAddress('attempts', context);
  const body = await readJson(context.request);
  const [code, verifier] = [text(body, 'auth_code'), text(body, 'code_verifier')];
  if (!code || !verifier) {
    throw validationFailed('invalid request: both auth code and code verifier should be non-empty');
  }
  const [result] = await context.pool.batch([takeFlow(code, context.config.flowStateSeconds)]);
  const [flow] = jsonRows<Flow>(result);
  if (flow === undefined) {
    throw new AuthError(404, 'flow_state_not_found', 'invalid flow state, no valid flow state found');
  }
  if (flow.expired) throw new AuthError(403, 'flow_state_expired', 'invalid flow state, flow state has expired');
  checkVerifier(flow, verifier);
  const granted = await startSessionOrRefuse(context, { userId: flow.userId, method: flow.method });
  if (flow.providerToken) granted.provider_token = flow.providerToken;
  if (flow.providerRefreshToken) granted.provider_refresh_token = flow.providerRefreshToken;
  return ok(granted);
}

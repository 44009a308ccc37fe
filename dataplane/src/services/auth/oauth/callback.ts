/**
 * Route /callback: a browser returns from a provider with a code or an error, and is redirected to the app with a
 * session or an error.
 */

import type { ProviderConfig } from '@slipway/installation/auth-settings.js';
import type { Statement } from '../../../sql/pool.js';
import { isUuid, readForm } from '../body.js';
import { type Answer, type Context, queryOf, redirect } from '../context.js';
import { AuthError, badRequest } from '../errors.js';
import { allowedRedirect, withParameters } from '../policy/redirect.js';
import { reportRefusal } from '../refused-address.js';
import { withError, withTokens } from '../routes/verify.js';
import { jsonRows } from '../sessions/session.js';
import { startSessionOrRefuse } from '../sessions/sign-in.js';
import { callbackUrl, enabledProvider, flowSecret } from './authorize.js';
import { fetchJson, providerFailed } from './fetch.js';
import { githubPerson, githubToken } from './github.js';
import { discover, personOfClaims, verifyIdToken } from './oidc.js';
import { linkPerson, type Person, signInPerson } from './person.js';

interface Pending {
  provider: string;
  redirectTo: string | null;
  linkTo: string | null;
  pkce: boolean;
  code: string;
  expired: boolean;
}

/** Uses up the state at once, so that it can't be used again. */
const takePending = (state: string, seconds: number): Statement => ({
  name: 'auth.flow.callback',
  text: `
update auth.flow_state set provider_type = provider_type || ' returned', updated_at = now()
where id = $1::uuid and authentication_method = 'oauth' and auth_code_issued_at is null
  and provider_type not like '% returned'
returning json_build_object('provider', split_part(provider_type, ' ', 1), 'redirectTo', referrer,
  'linkTo', linking_target_id, 'pkce', code_challenge is not null, 'code', auth_code,
  'expired', created_at < now() - make_interval(secs => $2::double precision))`,
  values: [state, seconds],
});

export async function callback(context: Context): Promise<Answer> {
  const { request, config } = context;
  context.limits.byAddress('attempts', context);
  const parameters = request.incoming.method === 'POST' ? await readForm(request) : queryOf(context);
  let target = config.siteUrl;
  let pkce = false;
  try {
    const pending = await pendingOf(context, parameters.get('state'));
    // The redirect is checked again, because settings may have changed since the flow began.
    target = allowedRedirect(pending.redirectTo, config, request.tenant.url);
    pkce = pending.pkce;
    if (pending.expired) throw badRequest('bad_oauth_state', 'OAuth state has expired');
    return redirect(await complete(context, parameters, pending, target), 302);
  } catch (error) {
    if (!(error instanceof AuthError)) throw error;
    reportRefusal(context, error);
    return redirect(withError(target, error, true), 302);
  } finally {
    await tidy(context, parameters.get('state'), pkce);
  }
}

async function pendingOf({ pool, config }: Context, state: string | null): Promise<Pending> {
  if (!state) throw badRequest('bad_oauth_callback', 'OAuth state parameter missing');
  if (!isUuid(state)) throw badRequest('bad_oauth_state', 'OAuth state is invalid');
  const [result] = await pool.batch([takePending(state, config.flowStateSeconds)]);
  const [pending] = jsonRows<Pending>(result);
  if (pending === undefined) throw badRequest('bad_oauth_state', 'OAuth state not found or expired');
  return pending;
}

async function complete(
  context: Context,
  parameters: URLSearchParams,
  pending: Pending,
  target: string,
): Promise<string> {
  const refusal = parameters.get('error');
  if (refusal) throw new AuthError(403, 'bad_oauth_callback', parameters.get('error_description') ?? refusal);
  const code = parameters.get('code');
  if (!code) throw badRequest('bad_oauth_callback', 'OAuth callback with missing code');
  const provider = enabledProvider(context, pending.provider);
  const state = parameters.get('state') as string;
  const { person, token, refreshToken } = await exchange(context, provider, code, state);
  const userId = await userOf(context, pending, provider, person);
  if (pending.pkce) {
    await context.pool.batch([issue(state, userId, token, refreshToken)]);
    return withParameters(target, { code: pending.code }, 'query');
  }
  const granted = await startSessionOrRefuse(context, { userId, method: 'oauth' });
  granted.provider_token = token;
  if (refreshToken) granted.provider_refresh_token = refreshToken;
  return withTokens(target, granted);
}

async function userOf(context: Context, pending: Pending, provider: ProviderConfig, person: Person): Promise<string> {
  if (pending.linkTo === null) return signInPerson(context, provider, person);
  await linkPerson(context, pending.linkTo, provider, person);
  return pending.linkTo;
}

async function exchange(context: Context, provider: ProviderConfig, code: string, state: string) {
  const { nonce, verifier } = flowSecret(context, state);
  const oidc = provider.kind === 'oidc';
  const address = oidc ? (await discover(context.outbound, provider)).tokenEndpoint : githubToken(provider);
  const body = new URLSearchParams({
    grant_type: 'authorization_code',
    code,
    redirect_uri: callbackUrl(context, provider),
    client_id: provider.clientIds[0],
    client_secret: provider.secret,
    ...(oidc ? { code_verifier: verifier } : {}),
  });
  const answer = (await fetchJson(context.outbound, address, { body })) as Record<string, unknown>;
  const { access_token: token, refresh_token: refreshToken, id_token: idToken } = answer;
  if (typeof token !== 'string') throw providerFailed();
  const person = oidc
    ? await oidcPerson(context, provider, { idToken, accessToken: token }, nonce)
    : await githubPerson(context.outbound, provider, token);
  return { person, token, refreshToken: typeof refreshToken === 'string' ? refreshToken : undefined };
}

async function oidcPerson(
  { outbound }: Context,
  provider: ProviderConfig,
  { idToken, accessToken }: { idToken: unknown; accessToken: string },
  nonce: string,
): Promise<Person> {
  if (typeof idToken !== 'string') throw providerFailed();
  const claims = await verifyIdToken(outbound, provider, idToken);
  if (claims.nonce !== nonce) throw badRequest('bad_oauth_callback', 'The id_token is of another sign-in');
  const { userinfoEndpoint } = await discover(outbound, provider);
  if (claims.email !== undefined || userinfoEndpoint === undefined) return personOfClaims(provider, claims);
  const headers = { authorization: `Bearer ${accessToken}` };
  const info = (await fetchJson(outbound, userinfoEndpoint, { headers })) as Record<string, unknown>;
  if (info.sub !== claims.sub) throw providerFailed();
  return personOfClaims(provider, { ...info, ...claims });
}

const issue = (state: string, userId: string, token: string, refreshToken: string | undefined): Statement => ({
  text: `
update auth.flow_state set user_id = $2::uuid, provider_access_token = $3, provider_refresh_token = $4,
  auth_code_issued_at = now(), updated_at = now() where id = $1::uuid`,
  values: [state, userId, token, refreshToken ?? null],
});

/** Deletes the state of the finished flow, and of abandoned ones. */
async function tidy({ pool, log, request }: Context, state: string | null, pkce: boolean): Promise<void> {
  const ended = isUuid(state) ? state : null;
  try {
    await pool.batch([
      {
        text: `
delete from auth.flow_state where (id = $1::uuid and (not $2::boolean or auth_code_issued_at is null))
  or created_at < now() - interval '1 day'`,
        values: [ended, pkce],
      },
    ]);
  } catch (error) {
    log.info({ ref: request.tenant.ref, reason: (error as Error).message }, 'ended flows not removed');
  }
}

/**
 * Route GET /authorize: redirects a browser to a provider. The browser must bring back a state, which is stored here
 * and works once.
 */
import { createHash, createHmac, randomUUID } from 'node:crypto';
import { type ProviderConfig, UPSTREAM_PROVIDERS } from '@slipway/installation/auth-settings.js';
import { type Answer, type Context, queryOf, redirect } from '../context.js';
import { validationFailed } from '../errors.js';
import { allowedRedirect } from '../policy/redirect.js';
import { challengeOf, insertFlow } from '../sessions/flow-state.js';
import { issuerOf } from '../sessions/grant.js';
import { GITHUB_SCOPES, githubAuthorization } from './github.js';
import { discover } from './oidc.js';

export async function authorize(context: Context): Promise<Answer> {
  context.limits.byAddress('attempts', context);
  return redirect(await authorizationUrl(context, null), 302);
}

/** Returns the provider's URL. `linkTo` is the user who requests a further identity. */
export async function authorizationUrl(context: Context, linkTo: string | null): Promise<string> {
  const query = queryOf(context);
  const provider = enabledProvider(context, query.get('provider'));
  const challenge = challengeOf({
    challenge: query.get('code_challenge') ?? undefined,
    method: query.get('code_challenge_method') ?? undefined,
  });
  const state = randomUUID();
  const url = new URL(await endpoint(context, provider));
  // Parameters that the app adds are for the provider, and can't replace ours.
  for (const name of ['prompt', 'login_hint', 'access_type', 'hd', 'domain_hint']) {
    const value = query.get(name);
    if (value !== null) url.searchParams.set(name, value);
  }
  const secret = flowSecret(context, state);
  const parameters = {
    client_id: provider.clientIds[0],
    redirect_uri: callbackUrl(context, provider),
    response_type: 'code',
    scope: scopes(provider, query.get('scopes')),
    state,
    ...(provider.kind === 'oidc'
      ? {
          nonce: secret.nonce,
          code_challenge: createHash('sha256').update(secret.verifier).digest('base64url'),
          code_challenge_method: 'S256',
        }
      : {}),
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  await context.pool.batch([
    insertFlow({
      id: state,
      userId: null,
      challenge,
      provider: provider.name,
      method: 'oauth',
      redirectTo: allowedRedirect(query.get('redirect_to'), context.config, context.request.tenant.url),
      linkTo,
    }),
  ]);
  return url.href;
}

export function enabledProvider({ config }: Context, name: string | null): ProviderConfig {
  const requested = name ?? '';
  const provider = config.providers.get(requested);
  if (provider) return provider;
  const why = UPSTREAM_PROVIDERS.includes(requested)
    ? 'provider is not enabled'
    : `Provider ${requested} could not be found`;
  throw validationFailed(`Unsupported provider: ${why}`);
}

/** Derives the secrets of a flow from its state, so that they need not be stored. */
export function flowSecret({ request }: Context, state: string): { nonce: string; verifier: string } {
  const derived = (purpose: string) =>
    createHmac('sha256', request.tenant.jwtSecret).update(`oauth ${purpose} ${state}`).digest('base64url');
  return { nonce: derived('nonce'), verifier: derived('verifier') };
}

export const callbackUrl = ({ request }: Context, { redirectUri }: ProviderConfig) =>
  redirectUri ?? `${issuerOf(request.tenant)}/callback`;

const endpoint = async ({ outbound }: Context, provider: ProviderConfig) =>
  provider.kind === 'github'
    ? githubAuthorization(provider)
    : (await discover(outbound, provider)).authorizationEndpoint;

function scopes({ kind }: ProviderConfig, wanted: string | null): string {
  const always = kind === 'github' ? GITHUB_SCOPES : ['openid', 'email', 'profile'];
  const more = wanted?.split(/[\s,]+/).filter((scope) => scope !== '') ?? [];
  return [...new Set([...always, ...more])].join(' ');
}

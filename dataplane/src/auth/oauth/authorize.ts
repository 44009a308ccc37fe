/** GET /authorize: sends a browser to a provider. What it must come back with is kept here, and is good once. */
import { createHash, createHmac, randomUUID } from 'node:crypto';
import { type Answer, type Context, queryOf, redirect } from '../context.js';
import { validationFailed } from '../errors.js';
import { challengeOf, insertFlow } from '../flow-state.js';
import { issuerOf } from '../grant.js';
import { allowedRedirect } from '../redirect.js';
import { type ProviderConfig, UPSTREAM_PROVIDERS } from './config.js';
import { GITHUB_SCOPES, githubAuthorization } from './github.js';
import { discover } from './oidc.js';

export async function authorize(context: Context): Promise<Answer> {
  context.limits.byAddress('attempts', context);
  return redirect(await authorizationUrl(context, null), 302);
}

/** The address of the provider. `linkTo`: the user who wants the identity added to them. */
export async function authorizationUrl(context: Context, linkTo: string | null): Promise<string> {
  const query = queryOf(context);
  const provider = enabledProvider(context, query.get('provider'));
  const challenge = challengeOf({
    challenge: query.get('code_challenge') ?? undefined,
    method: query.get('code_challenge_method') ?? undefined,
  });
  const state = randomUUID();
  const url = new URL(await endpoint(context, provider));
  // What the app adds is for the provider; what we set can't be replaced by it.
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
  const asked = name ?? '';
  const provider = config.providers.get(asked);
  if (provider) return provider;
  const why = UPSTREAM_PROVIDERS.includes(asked) ? 'provider is not enabled' : `Provider ${asked} could not be found`;
  throw validationFailed(`Unsupported provider: ${why}`);
}

/** Derives the secrets of a flow from its state, so that neither has to be stored. */
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

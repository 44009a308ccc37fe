/** GitHub's own protocol, also for enterprise servers: gets a token, then the user and addresses from the API. */

import type { ProviderConfig } from '@slipway/installation/auth-settings.js';
import type { Outbound } from '@slipway/program/outbound.js';
import { fetchJson, providerFailed } from './fetch.js';
import { withoutUndefined } from './oidc.js';
import type { Person } from './person.js';

interface GitHubUser {
  id?: unknown;
  login?: string;
  name?: string | null;
  avatar_url?: string;
}

interface GitHubEmail {
  email?: string;
  primary?: boolean;
  verified?: boolean;
}

export const GITHUB_SCOPES = ['user:email'];
export const githubAuthorization = ({ url }: ProviderConfig) => `${url}/login/oauth/authorize`;
export const githubToken = ({ url }: ProviderConfig) => `${url}/login/oauth/access_token`;

const api = ({ url }: ProviderConfig) => (url === 'https://github.com' ? 'https://api.github.com' : `${url}/api/v3`);

export async function githubPerson(outbound: Outbound, provider: ProviderConfig, accessToken: string): Promise<Person> {
  const headers = { authorization: `Bearer ${accessToken}`, accept: 'application/vnd.github+json' };
  const user = (await fetchJson(outbound, `${api(provider)}/user`, { headers })) as GitHubUser;
  if (typeof user.id !== 'number') throw providerFailed();
  const emails = (await fetchJson(outbound, `${api(provider)}/user/emails`, { headers })) as GitHubEmail[];
  const primary = Array.isArray(emails) ? emails.find((each) => each?.primary === true) : undefined;
  const email = primary?.email?.toLowerCase();
  const emailVerified = primary?.verified === true;
  const data = {
    iss: api(provider),
    sub: String(user.id),
    provider_id: String(user.id),
    email,
    email_verified: emailVerified,
    phone_verified: false,
    name: user.name ?? undefined,
    full_name: user.name ?? undefined,
    user_name: user.login,
    preferred_username: user.login,
    avatar_url: user.avatar_url,
  };
  return { id: String(user.id), email, emailVerified, data: withoutUndefined(data) };
}

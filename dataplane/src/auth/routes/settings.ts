/** GET /settings: which ways to sign in there are. GET /health: whether the project's users can be reached. */
import type { Answer, Context } from '../context.js';

export async function settings(): Promise<Answer> {
  return {
    status: 200,
    body: {
      external: { ...Object.fromEntries(PROVIDERS.map((name) => [name, false])), email: true },
      disable_signup: false,
      mailer_autoconfirm: true,
      phone_autoconfirm: false,
      sms_provider: '',
      saml_enabled: false,
    },
  };
}

const PROVIDERS = [
  ...['anonymous_users', 'apple', 'azure', 'bitbucket', 'discord', 'facebook', 'figma', 'fly', 'github', 'gitlab'],
  ...['google', 'kakao', 'keycloak', 'linkedin', 'linkedin_oidc', 'notion', 'phone', 'slack', 'slack_oidc'],
  ...['snapchat', 'spotify', 'twitch', 'twitter', 'workos', 'zoom'],
];

/** Has reached the database by the time it is called: the pool was made ready for it. */
export async function health({ pool }: Context): Promise<Answer> {
  await pool.batch([{ text: 'select 1' }], { repeatable: true });
  return { status: 200, body: { name: 'GoTrue', version: 'slipway', description: 'Users and sessions of a project' } };
}

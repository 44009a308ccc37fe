/** GET /settings: which ways to sign in there are. GET /health: whether the project's users can be reached. */
import { confirmsEmail } from '../config.js';
import { type Answer, type Context, ok } from '../context.js';
import { UPSTREAM_PROVIDERS } from '../oauth/config.js';

export async function settings({ config, configProblems, request }: Context): Promise<Answer> {
  const providers = Object.fromEntries([...config.providers.keys()].map((name) => [name, true]));
  return ok({
    external: {
      ...Object.fromEntries(UPSTREAM_PROVIDERS.map((name) => [name, false])),
      ...providers,
      anonymous_users: config.anonymousEnabled,
      email: config.emailEnabled,
      phone: config.phoneEnabled,
    },
    disable_signup: config.disableSignup,
    mailer_autoconfirm: !confirmsEmail(config),
    phone_autoconfirm: config.sms.autoconfirm,
    sms_provider: config.hooks.send_sms ? 'hook' : '',
    saml_enabled: false,
    passkeys_enabled: false,
    // Whoever may change the settings may see which of them are wrong.
    ...(request.caller.role === 'service_role' ? { config_problems: configProblems } : {}),
  });
}

/** Has reached the database by the time it is called: the pool was made ready for it. */
export async function health({ pool }: Context): Promise<Answer> {
  await pool.batch([{ text: 'select 1' }], { repeatable: true });
  const description = 'GoTrue is a user registration and authentication API';
  return ok({ name: 'GoTrue', version: 'slipway', description });
}

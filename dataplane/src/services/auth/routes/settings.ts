/**
 * Routes GET /settings, which lists the sign-in methods, and GET /health, which returns 200 if the database responds.
 */

import { confirmsEmail, UPSTREAM_PROVIDERS } from '@slipway/installation/auth-settings.js';
import { type Answer, type Context, ok } from '../context.js';

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
    // Callers with service_role may change settings, so they also see which are invalid.
    ...(request.caller.role === 'service_role' ? { config_problems: configProblems } : {}),
  });
}

/** Returns the health. The router has connected to the database before this is called. */
export async function health({ pool }: Context): Promise<Answer> {
  await pool.batch([{ text: 'select 1' }], { repeatable: true });
  const description = 'GoTrue is a user registration and authentication API';
  return ok({ name: 'GoTrue', version: 'slipway', description });
}

/**
 * The setting for who may register an account: `open`, `invite`, `closed`, or mail domains such as `@example.com`. In:
 * its text. Out: the policy, or an error that says what the setting accepts. Read by the supervisor, the site settings
 * and the API.
 */
export const REGISTRATION_SETTING = 'SLIPWAY_REGISTRATION';
/** Setting with the number of requests a minute of one account to the management API. */
export const API_RATE_LIMIT_SETTING = 'SLIPWAY_API_RATE_LIMIT';

export type Registration = { mode: 'open' | 'invite' | 'closed' } | { mode: 'domains'; domains: readonly string[] };

const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
const DOMAIN = `@${LABEL}(?:\\.${LABEL})+`;
/** Pattern of the setting, for schemas. */
export const REGISTRATION_PATTERN = `^(open|invite|closed|${DOMAIN}( *, *${DOMAIN}){0,99})$`;

export function readRegistration(text: string): Registration {
  const trimmed = text.trim();
  if (trimmed === 'open' || trimmed === 'invite' || trimmed === 'closed') return { mode: trimmed };
  if (!new RegExp(REGISTRATION_PATTERN).test(trimmed)) {
    throw new Error(
      `${REGISTRATION_SETTING} is ${JSON.stringify(text)}: it must be open, invite, closed, ` +
        'or mail domains separated by commas, such as @example.com',
    );
  }
  return { mode: 'domains', domains: trimmed.split(',').map((domain) => domain.trim().slice(1).toLowerCase()) };
}

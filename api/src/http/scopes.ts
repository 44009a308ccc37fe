/** Scopes of tokens. A user token, from logging in, has them all. */
export const SCOPES = {
  'account:read': 'read the account (/auth/me)',
  'tokens:read': 'list personal access tokens',
  'tokens:write': 'create and revoke personal access tokens, never with more rights than the token itself has',
  'projects:read': 'list and read projects and their status',
  'projects:write':
    'create, change, suspend and reprovision projects, rotate their credentials, restart their services, ' +
    'and make, restore and delete snapshots of their machines',
  'projects:delete': 'delete projects',
  'secrets:read':
    "see a project's db_url, service_role_key, webhook_secret, webhook_url, env_vars and slack_webhook, " +
    'which are null without it',
  'config:read': "read the settings of a project's auth and REST, without their secrets",
  'config:write':
    "change the settings of a project's auth and REST, which decide who can sign in, which keys sign tokens " +
    'and which schemas are exposed',
  'logs:read': 'read the logs of a project’s services and functions',
  'notifications:read': 'list webhooks, and what was delivered on the channels of notifications',
  'notifications:write': 'create and delete webhooks, replace their secrets, and send test notifications',
  'forms:read': 'read the forms of sites, and download their entries',
  'forms:write': 'delete forms and entries, and set for how long entries are kept',
  'functions:read': 'list and read edge functions, their versions and logs',
  'functions:write': 'create, change, deploy and delete edge functions, which run with the project’s keys',
  'builds:read': 'list and read the builds of sites, and their logs',
  'builds:write': 'cancel and repeat builds, and roll back to an earlier one',
  'database:query': "run SQL on a project's database",
  'admin:read': 'list accounts and invitations; only an administrator has it',
  'admin:write': 'change and delete accounts, invite and revoke invitations; only an administrator has it',
} as const;

export type Scope = keyof typeof SCOPES;
export const ALL_SCOPES = Object.keys(SCOPES) as Scope[];

/**
 * Scopes of administration. A token has them only if the request for the token named them, and only while its account
 * is an administrator.
 */
const ADMINISTRATOR_SCOPES: readonly Scope[] = ['admin:read', 'admin:write'];

export const withoutAdministration = (scopes: readonly Scope[]) =>
  scopes.filter((scope) => !ADMINISTRATOR_SCOPES.includes(scope));

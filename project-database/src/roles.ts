/**
 * The login roles of a project: what each may be and do. Limits that a role can't raise itself are set by the
 * superuser.
 */
import { API_ROLES, authAdminRole, authenticatorRole, ownerRole } from '@slipway/crds';
import { AUTH_ADMINS_ROLE } from './cluster.js';
import { OWNERS } from './owners.js';
import { identifier } from './session.js';

export interface LoginRole {
  /** The key of its password in ProjectPasswords. */
  part: keyof ProjectPasswords;
  name(databaseId: string): string;
  inherit: boolean;
  connectionLimit: number;
  /** The groups it belongs to, and how. */
  groups: readonly string[];
  membership: string;
  settings: Readonly<Record<string, string>>;
}

export interface ProjectPasswords {
  owner: string;
  authenticator: string;
  authAdmin: string;
}

export const LOGIN_ROLES: readonly LoginRole[] = [
  {
    part: 'owner',
    name: ownerRole,
    inherit: true,
    connectionLimit: 20,
    groups: [...API_ROLES, OWNERS],
    membership: 'ADMIN FALSE, INHERIT TRUE, SET TRUE',
    settings: {
      statement_timeout: '2min',
      idle_in_transaction_session_timeout: '5min',
      temp_file_limit: '512MB',
    },
  },
  {
    part: 'authenticator',
    name: authenticatorRole,
    inherit: false,
    connectionLimit: 20,
    groups: API_ROLES,
    membership: 'ADMIN FALSE, INHERIT FALSE, SET TRUE',
    settings: {
      statement_timeout: '8s',
      lock_timeout: '8s',
      idle_in_transaction_session_timeout: '10s',
      temp_file_limit: '512MB',
    },
  },
  {
    part: 'authAdmin',
    name: authAdminRole,
    inherit: true,
    connectionLimit: 8,
    groups: [AUTH_ADMINS_ROLE],
    membership: 'ADMIN FALSE, INHERIT TRUE, SET FALSE',
    settings: {
      search_path: 'auth',
      statement_timeout: '10s',
      idle_in_transaction_session_timeout: '60s',
      temp_file_limit: '512MB',
    },
  },
];

/** Makes `role` of `databaseId`, which can't log in until it is given a password. For a session by `naming`. */
export function createRole(role: LoginRole, databaseId: string): string[] {
  const name = identifier(role.name(databaseId));
  return [
    `CREATE ROLE ${name} WITH ${roleAttributes(role)} NOLOGIN`,
    ...grantGroups(role, databaseId),
    ...Object.entries(role.settings).map(([setting, value]) => `ALTER ROLE ${name} SET ${setting} = '${value}'`),
  ];
}

/** For a session by `naming`. */
export const grantGroups = (role: LoginRole, databaseId: string) => [
  `GRANT ${role.groups.map(identifier).join(', ')} TO ${identifier(role.name(databaseId))} WITH ${role.membership}`,
];

export const roleAttributes = (role: LoginRole) =>
  `NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS ${role.inherit ? 'INHERIT' : 'NOINHERIT'} ` +
  `CONNECTION LIMIT ${role.connectionLimit}`;

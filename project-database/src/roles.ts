/**
 * The login roles of a project, with their attributes and rights. Only the superuser can set the limits that a role
 * must not raise.
 */
import { API_ROLES, authAdminRole, authenticatorRole, ownerRole } from '@slipway/installation';
import { AUTH_ADMINS_ROLE } from './cluster.js';
import { OWNERS } from './owners.js';
import { grantReservedConnections } from './reserved-connections.js';
import { identifier } from './session.js';

export interface LoginRole {
  /** The key of the role's password in ProjectPasswords. */
  part: keyof ProjectPasswords;
  name(databaseId: string): string;
  inherit: boolean;
  connectionLimit: number;
  /** True if the role can log in after sessions of `db_url` have taken all other connections. */
  usesReservedConnections: boolean;
  /** The groups of the role. `membership` has the options of the grant. */
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
    usesReservedConnections: false,
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
    usesReservedConnections: true,
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
    usesReservedConnections: true,
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

/**
 * Returns the statements that make `role` of `databaseId` without a password, so it can't log in. Run them in a session
 * of `naming`.
 */
export function createRole(role: LoginRole, databaseId: string): string[] {
  const name = identifier(role.name(databaseId));
  return [
    `CREATE ROLE ${name} WITH ${roleAttributes(role)} NOLOGIN`,
    ...grantGroups(role, databaseId),
    ...Object.entries(role.settings).map(([setting, value]) => `ALTER ROLE ${name} SET ${setting} = '${value}'`),
  ];
}

/** Returns the grants of the role's groups. Run them in a session of `naming`. */
export function grantGroups(role: LoginRole, databaseId: string): string[] {
  const name = identifier(role.name(databaseId));
  return [
    `GRANT ${role.groups.map(identifier).join(', ')} TO ${name} WITH ${role.membership}`,
    ...(role.usesReservedConnections ? [grantReservedConnections(name)] : []),
  ];
}

export const roleAttributes = (role: LoginRole) =>
  `NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS ${role.inherit ? 'INHERIT' : 'NOINHERIT'} ` +
  `CONNECTION LIMIT ${role.connectionLimit}`;

/**
 * How many connections a pod of auth or rest may hold, so that all pods of a project, and one more while they are
 * replaced, stay within what Postgres admits of their login role. In: how many pods there are to be. Out: the size of
 * each one's pool.
 */
import { CONNECTIONS_AS_AUTHENTICATOR } from '@slipway/crds';
import { LOGIN_ROLES, type ProjectPasswords } from '@slipway/project-database';

/** Pods beyond the replicas in a rollout: the Deployment's maxSurge. */
export const SURGE = 1;
/** PostgREST hears of changes of the schema on a connection that is not of its pool. */
export const LISTENING = 1;

export const limitOf = (part: keyof ProjectPasswords) =>
  LOGIN_ROLES.find((role) => role.part === part)?.connectionLimit as number;

/** Connections that the shared data plane's pods open with rest's login role, wherever rest runs. */
export const heldByDataPlane = Object.values(CONNECTIONS_AS_AUTHENTICATOR).reduce((sum, count) => sum + count, 0);

export const authPool = (replicas: number) => share(limitOf('authAdmin'), replicas);
export const restPool = (replicas: number) =>
  Math.max(share(limitOf('authenticator') - heldByDataPlane, replicas) - LISTENING, 1);

const share = (connections: number, replicas: number) => Math.max(Math.floor(connections / (replicas + SURGE)), 1);

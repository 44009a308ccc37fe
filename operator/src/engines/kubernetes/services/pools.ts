/**
 * The sizes of connection pools in pods of auth and rest. All pods of a project, and one more during a rollout, must
 * stay within the connection limit of their login role. In: the number of pods. Out: the size of the pool of each.
 */
import { CONNECTIONS_AS_AUTHENTICATOR } from '@slipway/installation';
import { LOGIN_ROLES, type ProjectPasswords } from '@slipway/project-database';

/** Number of pods in addition to the replicas during a rollout: the Deployment's maxSurge. */
export const SURGE = 1;
/** Number of connections of PostgREST outside its pool: it receives changes of the schema on one. */
export const LISTENING = 1;

export const limitOf = (part: keyof ProjectPasswords) =>
  LOGIN_ROLES.find((role) => role.part === part)?.connectionLimit as number;

/** Connections that the shared data plane's pods open with rest's login role, wherever rest runs. */
export const heldByDataPlane = Object.values(CONNECTIONS_AS_AUTHENTICATOR).reduce((sum, count) => sum + count, 0);

export const authPool = (replicas: number) => share(limitOf('authAdmin'), replicas);
export const restPool = (replicas: number) =>
  Math.max(share(limitOf('authenticator') - heldByDataPlane, replicas) - LISTENING, 1);

const share = (connections: number, replicas: number) => Math.max(Math.floor(connections / (replicas + SURGE)), 1);

/**
 * The password of the role that reads changes, of each Postgres cluster another: who is caught with one has no other
 * cluster's.
 */
import { createHmac } from 'node:crypto';

/** `host`: of the cluster, as projects' Secrets have it. `secret`: what REPLICATION_SECRET holds. */
export const replicationPasswordAt = (host: string, secret: string): string =>
  createHmac('sha256', secret).update(host).digest('base64url');

/**
 * Derives the password of the replication role. Each Postgres cluster has a different password, so that a leaked one
 * works on one cluster only.
 */
import { createHmac } from 'node:crypto';

/** `host` is the cluster's, as in the Secrets of projects. `secret` is the value of REPLICATION_SECRET. */
export const replicationPasswordAt = (host: string, secret: string): string =>
  createHmac('sha256', secret).update(host).digest('base64url');

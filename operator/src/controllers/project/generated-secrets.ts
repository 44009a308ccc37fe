/**
 * Selects the Secrets whose values the operator keeps in memory: those that each reconcile reads, and those that the
 * engine made. Of all other Secrets, which may be large and many, it keeps only that they exist. Pure.
 */
import { SECRETS } from '@slipway/installation';
import { metadataOnly } from '../../runtime/metadata-only.js';
import type { Secret } from './resources.js';

const READ = new Set<string>([SECRETS.keys.name, SECRETS.database.name, SECRETS.auth.name]);

/** True for Secrets that the cache keeps whole. Others are read from the server on demand. */
export const isKept = (name: string) => READ.has(name);

export const keepOfSecrets =
  (isEngines: (secret: Secret) => boolean) =>
  (secret: Secret): Secret =>
    isKept(secret.metadata.name) || isEngines(secret) ? secret : metadataOnly(secret);

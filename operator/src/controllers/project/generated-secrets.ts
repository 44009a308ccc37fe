/**
 * Which Secrets the operator keeps in memory with their values: those that it reads at each look, and those that its
 * engine made. Of all others, as large and as many as an account makes them, it keeps that they are there. Pure.
 */
import { SECRETS } from '@slipway/crds';
import { metadataOnly } from '../../runtime/metadata-only.js';
import type { Secret } from './resources.js';

const READ = new Set<string>([SECRETS.keys.name, SECRETS.database.name, SECRETS.auth.name]);

/** True for Secrets that the cache keeps whole; others are read from the server when they are needed. */
export const isKept = (name: string) => READ.has(name);

export const keepOfSecrets =
  (isEngines: (secret: Secret) => boolean) =>
  (secret: Secret): Secret =>
    isKept(secret.metadata.name) || isEngines(secret) ? secret : metadataOnly(secret);

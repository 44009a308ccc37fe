/**
 * Attacks of one tenant on a shared platform. The platform may reject an attack. The suite checks whether others are
 * affected.
 */
import type { Attack } from './attack.js';
import { ENDLESS_ROWS, LASTING_ATTACKS, POSTGRES_ATTACKS } from './postgres-attacks.js';
import { SERVICE_ATTACKS } from './service-attacks.js';

/** All attacks, in the order in which they run. */
export const ATTACKS: readonly Attack[] = [...POSTGRES_ATTACKS, ...SERVICE_ATTACKS, ENDLESS_ROWS];

export const attackNamed = (name: string): Attack | undefined =>
  [...ATTACKS, ...LASTING_ATTACKS].find((attack) => attack.name === name);

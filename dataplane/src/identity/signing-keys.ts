/**
 * The asymmetric keys of each project, parsed once for each version of its settings. Used by the gateway and by auth.
 */
import { JWT_KEYS, parseSigningKeys, type SigningKeys } from '@slipway/installation/auth-settings.js';
import type { BackendTenant } from '../projects/tenant.js';

const NONE: SigningKeys = { signing: undefined, verification: new Map(), published: [] };

const byTenant = new WeakMap<BackendTenant, SigningKeys>();

/** Returns no keys if the setting is invalid: tokens are then signed and verified with the project's secret only. */
export function signingKeysOf(tenant: BackendTenant): SigningKeys {
  const text = tenant.authConfig?.[JWT_KEYS];
  if (!text) return NONE;
  let keys = byTenant.get(tenant);
  if (keys === undefined) {
    try {
      keys = parseSigningKeys(text);
    } catch {
      keys = NONE;
    }
    byTenant.set(tenant, keys);
  }
  return keys;
}

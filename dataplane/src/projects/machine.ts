/**
 * Parses `status.server` of a project with a machine of its own. In: the address and certificate that the operator
 * wrote. Out: both, in their normal form; undefined if one is missing or malformed.
 */
import { X509Certificate } from 'node:crypto';
import { isIPv4 } from 'node:net';
import type { ProjectStatus } from '@slipway/crds';
import type { Machine } from './tenant.js';

/** One certificate. A second one would be a second machine that the gateway trusts. */
const ONE_CERTIFICATE = /^\s*-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\s*$/;

export function parseMachine(server: ProjectStatus['server']): Machine | undefined {
  const { address = '', certificate = '' } = server ?? {};
  if (!isIPv4(address) || !ONE_CERTIFICATE.test(certificate)) return undefined;
  try {
    return { address, certificate: new X509Certificate(certificate).toString() };
  } catch {
    return undefined;
  }
}

/**
 * Reports hosts in a project's settings of auth whose addresses are refused, so that hooks, providers or mail fail. In:
 * the Secret `auth-config`. It never waits for a look-up.
 */
import { namespaceOf, SECRETS } from '@slipway/installation';
import { type OutgoingHost, outgoingHosts } from '@slipway/installation/auth-settings.js';
import { ALLOWED_NETWORKS_SETTING } from '@slipway/program';
import { type Context, ready, type StepOutcome } from '../context.js';
import { namesOf } from '../host-check.js';
import { plainText, type Secret } from '../resources.js';

export const ADDRESSES_ALLOWED = 'AddressesAllowed';

/** Returns undefined if there is nothing to report: no host is set, or the names are not resolved yet. */
export async function checkAddresses({ deps, ref, project }: Context): Promise<StepOutcome | undefined> {
  const { hostCheck, secrets } = deps;
  if (!hostCheck) return undefined;
  const hosts = hostsOf(secrets.get(SECRETS.auth.name, namespaceOf(ref)));
  const refused = hostCheck.refusedOf(ref, hosts);
  if (refused === undefined) return undefined;
  if (refused.length > 0)
    return { state: 'failed', reason: 'AddressRefused', message: messageOf(refused), retry: false };
  const isReported = project.status?.conditions?.some(({ type }) => type === ADDRESSES_ALLOWED);
  return hosts.length > 0 || isReported ? ready : undefined;
}

/** Hosts by Secret, because a changed Secret is another object, and reading all settings costs milliseconds. */
const known = new WeakMap<Secret, OutgoingHost[]>();

function hostsOf(secret: Secret | undefined): OutgoingHost[] {
  if (!secret) return [];
  const hosts = known.get(secret) ?? outgoingHosts(plainText(secret));
  known.set(secret, hosts);
  return hosts;
}

const messageOf = (refused: readonly OutgoingHost[]) =>
  `Auth does not connect to the hosts of these settings, because their addresses are not public: ` +
  `${namesOf(refused).join(', ')}. Set hosts with public addresses, or let an administrator allow their networks in ` +
  `${ALLOWED_NETWORKS_SETTING}.`;

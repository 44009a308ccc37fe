/**
 * The filter of system calls for containers and for steps of builds: podman's own filter, which the distribution
 * maintains, without the calls that lead to parts of the kernel which apps do not use. In: podman's filter. Out: the
 * text of a filter.
 */
import { readFile } from 'node:fs/promises';
import { parseJson, unlessMissing } from '@slipway/program';

interface Rule {
  names: string[];
  action: string;
  args?: { index: number; value: number; op: string }[] | null;
  [other: string]: unknown;
}

interface Profile {
  archMap: { architecture: string; subArchitectures: string[] | null }[];
  syscalls: Rule[];
  [other: string]: unknown;
}

/** The places where podman looks, the first of which counts. */
const PLACES = ['/etc/containers/seccomp.json', '/usr/share/containers/seccomp.json'];
const MOST = { bytes: 2 ** 20, depth: 8, values: 50_000 };

/** A filter can't see which sockets these calls make. Apps need no keyrings of the kernel. */
const DENIED = /^(socket|socketcall|io_uring_.*|add_key|keyctl|request_key)$/;
const DOMAINS = { unix: 1, ipv4: 2, ipv6: 10, netlink: 16, alg: 38 } as const;
const NETLINK_ROUTE = 0;
const EAFNOSUPPORT = 97;

/** Returns the text of the filter. */
export async function seccompProfile(places: readonly string[] = PLACES): Promise<string> {
  for (const place of places) {
    const text = await readFile(place).catch(unlessMissing);
    if (text) return JSON.stringify(restricted(parseJson(text, MOST) as Profile));
  }
  throw new Error(`podman has no filter at ${places.join(' or ')}: install golang-github-containers-common`);
}

/**
 * A call without a rule gets the default of the filter, an error. A program of 32 bits is killed: its call `socketcall`
 * makes any socket, and the library that makes filters allows it where it allows `socket`.
 */
function restricted(profile: Profile): Profile {
  const rules = profile.syscalls
    .map((rule) => ({ ...rule, names: rule.names.filter((name) => !DENIED.test(name)) }))
    .filter(({ names }) => names.length > 0);
  const archMap = profile.archMap.map(({ architecture }) => ({ architecture, subArchitectures: [] }));
  return { ...profile, archMap, syscalls: [...rules, ...SOCKETS] };
}

const ofDomain = (value: number) => ({ index: 0, value, op: 'SCMP_CMP_EQ' });
const allowed = (...args: NonNullable<Rule['args']>): Rule => ({ names: ['socket'], action: 'SCMP_ACT_ALLOW', args });

/** AF_ALG reaches the kernel's cryptography (CVE-2026-31431). */
const SOCKETS: readonly Rule[] = [
  ...[DOMAINS.unix, DOMAINS.ipv4, DOMAINS.ipv6].map((domain) => allowed(ofDomain(domain))),
  allowed(ofDomain(DOMAINS.netlink), { index: 2, value: NETLINK_ROUTE, op: 'SCMP_CMP_EQ' }),
  { names: ['socket'], action: 'SCMP_ACT_ERRNO', errnoRet: EAFNOSUPPORT, args: [ofDomain(DOMAINS.alg)] },
];

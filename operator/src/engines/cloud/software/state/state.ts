/**
 * The desired state of a machine as one document. In: the release, the project's settings, the machine's size and its
 * certificate. Out: packages, files and systemd units, with one hash over all. Pure. Applied by `apply-state.ts`.
 */
import { createHash } from 'node:crypto';
import { firewall } from './firewall.js';
import { host } from './host.js';
import { nginx } from './nginx.js';
import { pgbouncer } from './pgbouncer.js';
import { postgres } from './postgres.js';
import { SERVICES, type ServiceProgram, type ServiceUnit, service } from './service.js';
import type { MachineSize } from './sizes.js';

export interface MachineFile {
  path: string;
  /** Permissions, such as 0o640. */
  mode: number;
  /** `user:group`. */
  owner: string;
  content: string;
}

export interface MachineUnit {
  /** Without `.service`. */
  name: string;
  /** False: only reloaded or restarted when its files change, as the system itself starts it. */
  isOwn: boolean;
  onChange: 'reload' | 'restart';
  /** Paths of files that the unit reads at its start. A change of its unit file always restarts it. */
  files: readonly string[];
}

/** The files and units of one part of the machine. */
export interface Part {
  files: MachineFile[];
  units: MachineUnit[];
}

export interface MachineState {
  /** Debian's packages. */
  packages: readonly string[];
  /** Units of Debian that must not run, because ours use the same programs. */
  masked: readonly string[];
  files: readonly MachineFile[];
  /** In the order in which they start. */
  units: readonly MachineUnit[];
}

export interface StateRequest {
  /** The id of the installed pack. Another release restarts the units that run its programs. */
  release: string;
  machine: MachineSize;
  /** The password of Postgres' superuser `slipway`. Only the first start of Postgres reads it. */
  superuserPassword: string;
  /** In PEM. nginx and pgbouncer use it. */
  certificate: { chain: string; privateKey: string };
  services: Readonly<Record<ServiceUnit, ServiceProgram>>;
  /** Further files, such as the project's document. The services restart only if `ServiceProgram.files` names them. */
  files?: readonly MachineFile[];
}

/** Debian's packages that every machine has. */
export const PACKAGES = ['nginx', 'pgbouncer', 'nftables'];
const MASKED = ['nginx', 'pgbouncer', 'postgresql', 'nftables'];

/** Throws if a value of the request has characters that a configuration file can't contain. */
export function stateOf(request: StateRequest): MachineState {
  const parts = [
    host(),
    firewall(),
    postgres(request),
    pgbouncer(request),
    ...SERVICES.map((name) => service(name, request)),
    nginx(request),
  ];
  const files = [...parts.flatMap((part) => part.files), ...(request.files ?? [])];
  return { packages: PACKAGES, masked: MASKED, files, units: parts.flatMap(({ units }) => units) };
}

/** The document as the machine gets it. It contains secrets. */
export const textOf = (state: MachineState): string => JSON.stringify(state);

/** Returns the hash that the machine reports once it has this state. */
export const hashOf = (state: MachineState): string => createHash('sha256').update(textOf(state)).digest('hex');

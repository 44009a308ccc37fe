/**
 * The machines of a cloud provider, in few verbs. In: a project's labels and a size. Out: one machine for these labels.
 * Called by the engine for projects with a machine of their own. Implemented in `hetzner/`.
 *
 * - Every method is safe to repeat, also after an interruption or a lost response: a second call continues.
 * - Every method rejects with a ProviderError, or with the reason of the signal if the signal aborts the call.
 * - Ids are opaque. Labels mark everything that a caller creates, and find it again. Labels that select everything in
 *   the provider's account are refused: at least one is required.
 */
import type { MachineSize, Region } from '@slipway/crds';

/**
 * Keys and values: 1 to 63 characters of `A-Z a-z 0-9 . _ -`, the first and the last alphanumeric. A key may begin with
 * a DNS name and `/`.
 */
export type Labels = Readonly<Record<string, string>>;

/** A type of machine that can be ordered at a location now. */
export interface MachineChoice {
  size: MachineSize;
  /** The provider's name of the type, which has at least the cores, memory and disk of `size`. */
  type: string;
  location: string;
  cores: number;
  memoryGb: number;
  diskGb: number;
  /** Net price, without taxes and without the IPv4 address. */
  eurosPerMonth: number;
}

export type MachineState =
  /** Booting for the first time, or again. The system may not respond yet. */
  | 'starting'
  | 'running'
  | 'stopping'
  | 'off'
  | 'deleting'
  /** The provider works on the machine, for example moves it to another host. */
  | 'busy';

export interface Machine {
  id: string;
  name: string;
  labels: Labels;
  state: MachineState;
  /** The public IPv4 address. It may belong to another machine once this one is deleted. Undefined: none yet. */
  address: string | undefined;
  type: string;
  cores: number;
  memoryGb: number;
  /** The machine's disk. It is smaller than that of the type after a change of the type alone. */
  diskGb: number;
  location: string;
  createdAt: Date;
  /** Ids of the firewalls that are applied to it. */
  firewalls: readonly string[];
}

export interface MachineRequest {
  /** A host name, unique in the provider's account: at most 63 letters, digits, dots and hyphens. */
  name: string;
  /** Labels that no other machine has together. */
  labels: Labels;
  /** In the order of preference, from `choices`. If a location has no capacity, the next choice is tried. */
  choices: readonly Pick<MachineChoice, 'type' | 'location'>[];
  /** The name of a system image, such as `debian-12`, or the id of a snapshot. */
  image: string;
  /** cloud-init's user data, at most 32 KiB. Every process on the machine can read it. */
  userData?: string | undefined;
  /** Ids of `ensureKey`: the keys that may log in as root. */
  keys: readonly string[];
  /** Id of `ensureFirewall`. It is applied before the machine boots. */
  firewall: string;
}

export interface KeyRequest {
  /** Unique in the provider's account. */
  name: string;
  /** Labels that no other key has together. */
  labels: Labels;
  /** In the format of OpenSSH. The comment at its end is ignored. */
  publicKey: string;
}

/** Inbound connections that a firewall allows. It drops all others. */
export type InboundRule =
  /** `ports`: a port or a range, such as `443` or `80-85`. `sources`: CIDRs. */
  | { protocol: 'tcp' | 'udp'; ports: string; sources: readonly string[] }
  | { protocol: 'icmp'; sources: readonly string[] };

export interface FirewallRequest {
  /** Unique in the provider's account. */
  name: string;
  /** Labels that no other firewall has together. */
  labels: Labels;
  rules: readonly InboundRule[];
}

export interface SnapshotRequest {
  /** Labels that no other snapshot has together, also not with others. */
  labels: Labels;
  /** For people, in the provider's console. */
  description: string;
}

export interface Snapshot {
  id: string;
  labels: Labels;
  description: string;
  /** False while the provider copies the disk. */
  isComplete: boolean;
  /** The smallest disk of a machine that can boot from the snapshot. */
  diskGb: number;
  createdAt: Date;
}

export interface MachineProvider {
  /**
   * Returns, for each size, the cheapest type at each location of the region that offers one, in the order in
   * which the locations should be tried. Empty for a size that no location offers.
   */
  choices(region: Region, signal: AbortSignal): Promise<MachineChoice[]>;
  /**
   * Returns the machine with these labels. Creates it if there is none, and applies the firewall again if somebody
   * removed it. Does not wait for the boot. Never creates two, also if the response to a creation is lost.
   * Errors: `conflict` if a machine of that name has other labels; `no-capacity` if no choice can be ordered now;
   * `limit-reached`; `unavailable` while a former machine of these labels is being deleted.
   */
  ensureMachine(request: MachineRequest, signal: AbortSignal): Promise<Machine>;
  /** Undefined: it was deleted. */
  observe(id: string, signal: AbortSignal): Promise<Machine | undefined>;
  /** Returns all machines with these labels, and perhaps others. One request for 25 machines. */
  list(labels: Labels, signal: AbortSignal): Promise<Machine[]>;
  /** Resets the machine without shutting its system down, so that a hung one restarts too. */
  reboot(id: string, signal: AbortSignal): Promise<void>;
  /**
   * Shuts the system down, and cuts the power if that takes longer than Postgres may need. Resolves when the machine is
   * off. The provider bills it all the same.
   */
  shutDown(id: string, signal: AbortSignal): Promise<void>;
  powerOn(id: string, signal: AbortSignal): Promise<void>;
  /**
   * Changes the type of a machine that is off, and leaves it off. `growDisk`: the disk grows to that of the type. The
   * machine can't get a smaller disk afterwards. Errors: `invalid` if the machine runs; `no-capacity`.
   */
  resize(id: string, to: { type: string; growDisk: boolean }, signal: AbortSignal): Promise<void>;
  /**
   * Copies the machine's disk to the snapshot with these labels, unless it exists. Resolves when it is complete, which
   * may take minutes.
   */
  createSnapshot(machine: string, request: SnapshotRequest, signal: AbortSignal): Promise<Snapshot>;
  listSnapshots(labels: Labels, signal: AbortSignal): Promise<Snapshot[]>;
  /** Resolves too if the snapshot does not exist. */
  deleteSnapshot(id: string, signal: AbortSignal): Promise<void>;
  /** Returns the id of the key with these labels. Replaces another public key. */
  ensureKey(request: KeyRequest, signal: AbortSignal): Promise<string>;
  /** Returns the id of the firewall with these labels, with exactly these rules. */
  ensureFirewall(request: FirewallRequest, signal: AbortSignal): Promise<string>;
  /** Resolves too if the firewall does not exist. Errors: `unavailable` while a machine uses it. */
  deleteFirewall(id: string, signal: AbortSignal): Promise<void>;
  /**
   * Deletes all machines and keys with these labels. Resolves when a list shows that none is left. Snapshots and
   * firewalls stay. A creation that was interrupted may still be executed afterwards: a sweep must list the machines
   * of the installation later. Errors: `unavailable` while something is left; `conflict` if one is protected.
   */
  delete(labels: Labels, signal: AbortSignal): Promise<void>;
  /** Closes the connections. */
  close(): Promise<void>;
}

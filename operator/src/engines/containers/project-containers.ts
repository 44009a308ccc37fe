/**
 * The containers of one project: at most two, the one that serves and another one that replaces it or ends. In: the
 * project's place, images, and settings. Out: running containers with an address of their own. Every method is
 * idempotent, and the state is in files, so that another process of the platform continues.
 */
import { createHash } from 'node:crypto';
import { chmod, chown, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { EngineForm } from '@slipway/installation';
import { parseJson, replaceFile, unlessMissing } from '@slipway/program';
import {
  addressesOf,
  closeNetwork,
  type NetworkPlace,
  type OpenedNetworks,
  openNetwork,
  unlinkNetwork,
} from './container-network.js';
import { ContainerOutput } from './container-output.js';
import {
  closeGroup,
  type GroupLimits,
  inGroup,
  isEngineInGroup,
  limitSocketsOfGroup,
  memoryOfGroup,
  openGroup,
  processesOfGroup,
} from './delegated-group.js';
import type { DnsForwarder } from './dns-forwarder.js';
import type { LinkedPlace } from './machine-routing.js';
import { type BuildOrder, Podman } from './podman.js';
import { preparePodman } from './podman-settings.js';
import { closeDisk, openDisk } from './project-disk.js';
import { firstIdOf, pairOf } from './project-numbers.js';
import { ProjectSpace } from './project-space.js';
import { systemCommand } from './system-command.js';

/** The port at which every container must listen. */
export const CONTAINER_PORT = 8080;

export const SLOTS = [0, 1] as const;
export type Slot = (typeof SLOTS)[number];

export interface ContainerLimits {
  memoryBytes: number;
  processors: number;
  processes: number;
  /** Bytes of the log that are kept. */
  logBytes: number;
}

export interface ProjectPlace {
  ref: string;
  number: number;
  /** The project's folder on the disk of this machine. */
  folder: string;
  /** A folder that a reboot empties. */
  volatile: string;
  diskBytes: number;
  form: EngineForm;
  /** Ranges that containers may not reach, as CIDRs. */
  closed: readonly string[];
  opened?: OpenedNetworks;
  /** Resolves names for containers. Undefined: they can resolve none. */
  resolver?: Pick<DnsForwarder, 'open' | 'close'>;
  /** Addresses of this machine that a linked container reaches. */
  linked: readonly LinkedPlace[];
  /** Appends to the log of the app. */
  keepOutput(bytes: Buffer): Promise<void>;
}

export interface ContainerOrder {
  build: string;
  /** The image's id. */
  image: string;
  variables: Readonly<Record<string, string>>;
  limits: ContainerLimits;
  /** Another number makes another container of the same image and variables. */
  restart: number;
  /** The host name by which the container reaches a linked project. Undefined: there is none. */
  linkedHost?: string | undefined;
}

/** A container that was started. */
export interface StartedContainer {
  build: string;
  image: string;
  /** Differs for containers of other settings. */
  digest: string;
  startedAt: string;
  linkedHost?: string;
}

export interface ImageOrder extends Omit<BuildOrder, 'group' | 'secrets'> {
  /** Values that a step may mount as secrets, by id. No layer has them. */
  secrets: Variables;
}

type Variables = Readonly<Record<string, string>>;
/** Other names would end the id in an argument of podman. No variable of a process has them either. */
const SECRET_ID = /^[A-Za-z_][\w.-]{0,252}$/;
const isLong = (value: string) => /[\r\n]/.test(value);

/** Memory and processes of the engine itself, which are in the same group. */
const OF_ENGINE = { memoryBytes: 128 * 2 ** 20, processes: 64 };
/** The sockets of a container may use an eighth of its memory, beside it, and a small part for each socket. */
const MEMORY_PER_SOCKETS = 8;
const MOST_OF_STATE = { bytes: 4096, depth: 3, values: 50 };

export class ProjectContainers {
  private constructor(
    readonly place: ProjectPlace,
    readonly space: ProjectSpace,
    readonly podman: Podman,
    private readonly output: ContainerOutput,
  ) {}

  static async open(place: ProjectPlace): Promise<ProjectContainers> {
    const firstId = firstIdOf(place.number);
    const { disk, settings, seccomp } = pathsOf(place);
    await mkdir(place.folder, { recursive: true, mode: 0o700 });
    await mkdir(place.volatile, { recursive: true, mode: 0o711 });
    await openDisk(disk, place.diskBytes);
    const space = await ProjectSpace.open(spacePlaceOf(place));
    await space.mountDisk(disk.folder);
    const folders = { store: path.join(disk.folder, 'store'), volatile: path.join(place.volatile, 'engine') };
    const files = { ...folders, settings, seccomp };
    await preparePodman(files, firstId);
    const output = new ContainerOutput({
      disk: disk.folder,
      volatile: place.volatile,
      keep: (bytes) => place.keepOutput(bytes),
    });
    const containers = new ProjectContainers(place, space, new Podman(space, files, place.form), output);
    await containers.#endFormerBuild();
    await containers.#removePrepared();
    await containers.#openResolvers();
    return containers;
  }

  /** Removes the containers, their networks and the space. The images stay on the project's disk. */
  async close(): Promise<void> {
    for (const slot of SLOTS) await this.remove(slot);
    await endContainers(this.place);
  }

  /**
   * Builds an image within the limits, and returns its id. A process that exceeds the memory is killed, and one beyond
   * the number is not started. Throws Refused if the image must not run. No process of the build is left, and no copy
   * of a secret.
   */
  async build(
    { secrets, ...order }: ImageOrder,
    limits: GroupLimits,
    onOutput: (bytes: Buffer) => void,
    signal?: AbortSignal,
  ): Promise<string> {
    const name = this.#buildGroup;
    await this.#endFormerBuild();
    await writeFile(buildMarkOf(this.place), '');
    const all = await openGroup(name, firstIdOf(this.place.number), limits);
    // Podman removes the group of the steps after each step.
    const group = { steps: path.join(all, 'steps'), entering: (command: readonly string[]) => inGroup(name, command) };
    let isWhole = false;
    try {
      const files = await this.#writeSecrets(secrets);
      const image = await this.podman.build({ ...order, group, secrets: files }, onOutput, signal);
      isWhole = true;
      await this.podman.examine(image);
      return image;
    } finally {
      await this.#endBuild(isWhole);
    }
  }

  async #endFormerBuild(): Promise<void> {
    const isMarked = (await stat(buildMarkOf(this.place)).catch(unlessMissing)) !== undefined;
    await this.#endBuild(!isMarked);
  }

  /**
   * Kills the processes of a build, and deletes what it has left. A build that succeeds deletes its own containers. If
   * podman can not delete those of another one, the mark stays for the next call.
   */
  async #endBuild(isWhole: boolean): Promise<void> {
    await closeGroup(this.#buildGroup);
    await rm(this.#secretsFolder, { recursive: true, force: true });
    const isDeleted = isWhole || (await this.podman.removeKilledBuild().then(isTrue, isFalse));
    if (isDeleted) await rm(buildMarkOf(this.place), { force: true });
  }

  /** Returns the container that was started last in a slot, running or not. */
  async started(slot: Slot): Promise<StartedContainer | undefined> {
    const text = await readFile(this.#stateFile(slot)).catch(unlessMissing);
    return text && (parseJson(text, MOST_OF_STATE) as StartedContainer);
  }

  /** Starts a container in place of the one in the slot. Its files begin as they are in the image. */
  async start(slot: Slot, order: ContainerOrder, signal?: AbortSignal): Promise<void> {
    const { build, image, variables, limits, linkedHost } = order;
    await this.podman.examine(image);
    await this.remove(slot);
    const state = { build, image, digest: digestOf(order), startedAt: new Date().toISOString(), linkedHost };
    await replaceFile(this.#stateFile(slot), JSON.stringify(state));
    const linked = linkedHost === undefined ? [] : this.place.linked;
    const network = await openNetwork(this.space, { ...this.#network(slot), linked });
    const { machine } = this.#addresses(slot);
    this.place.resolver?.open(machine);
    const { memoryBytes, processors, processes, logBytes } = limits;
    const together = { memoryBytes: memoryBytes + OF_ENGINE.memoryBytes, processes: processes + OF_ENGINE.processes };
    const group = await openGroup(this.#group(slot), firstIdOf(this.place.number), together);
    const given = { ...variables, PORT: String(CONTAINER_PORT) };
    const file = await this.#writeVariables(slot, given);
    const secrets = await this.#storeLongVariables(slot, given);
    const log = { file: this.logOf(slot), bytes: logBytes };
    const files = await this.#writeOwnFiles(slot, linkedHost);
    const name = this.#name(slot);
    const made = { name, hostname: name, image, network, files, variables: file, secrets, group };
    await this.podman.create({ ...made, memoryBytes, processors, processes, log }, signal);
    await rm(file, { force: true });
    await this.#startMade(slot, memoryBytes, signal);
  }

  /** Starts the container of the slot again, with its files as they are. Rejects if it is no longer there. */
  async startAgain(slot: Slot, { memoryBytes }: ContainerLimits): Promise<void> {
    const state = await this.started(slot);
    await this.#startMade(slot, memoryBytes);
    await replaceFile(this.#stateFile(slot), JSON.stringify({ ...state, startedAt: new Date().toISOString() }));
  }

  /** Ends the connections of the container to a linked project. Only another container can have a link again. */
  async unlink(slot: Slot): Promise<void> {
    const state = await this.started(slot);
    if (state?.linkedHost === undefined) return;
    const { linkedHost, ...rest } = { ...state, digest: UNLINKED };
    // A process that is killed here is followed by one that ends the connections.
    await replaceFile(this.#stateFile(slot), JSON.stringify({ ...rest, linkedHost }));
    await unlinkNetwork(this.#network(slot));
    await replaceFile(this.#stateFile(slot), JSON.stringify(rest));
  }

  /** True while the container has a process. */
  async isRunning(slot: Slot): Promise<boolean> {
    return (await processesOfGroup(this.#group(slot))).length > 0;
  }

  /** False if the container runs without its process of podman, which keeps its output and its exit code. */
  async isSupervised(slot: Slot): Promise<boolean> {
    return !(await this.isRunning(slot)) || (await isEngineInGroup(this.#group(slot)));
  }

  memoryBytes(slot: Slot): Promise<number> {
    return memoryOfGroup(this.#group(slot));
  }

  /** The ids of the container's processes on this machine. */
  processes(slot: Slot): Promise<number[]> {
    return processesOfGroup(this.#group(slot));
  }

  /** Returns the exit code of the container that ended in the slot. */
  exitCode(slot: Slot): Promise<number | undefined> {
    return this.podman.exitCode(this.#name(slot));
  }

  /** Returns the end of the container's output, of at most `bytes`. */
  lastWords(slot: Slot, bytes: number): Promise<string> {
    return this.podman.lastWords(this.logOf(slot), bytes);
  }

  /** Copies what the containers printed to the log of the app. */
  async copyOutput(): Promise<void> {
    for (const slot of SLOTS) if (await this.started(slot)) await this.output.copy(this.logOf(slot));
  }

  /** Appends a line of the platform to the log of the app. */
  async note(text: string): Promise<void> {
    await this.output.note(text);
  }

  /** Sends TERM, and KILL after `seconds`. */
  async stop(slot: Slot, seconds: number): Promise<void> {
    if (await this.isRunning(slot)) await this.podman.stop(this.#name(slot), seconds);
  }

  async remove(slot: Slot): Promise<void> {
    if ((await this.started(slot)) === undefined) return;
    // A full disk of the log must not keep a container.
    await this.output.copy(this.logOf(slot)).catch(() => undefined);
    await this.podman.remove(this.#name(slot));
    this.place.resolver?.close(this.#addresses(slot).machine);
    await closeNetwork(this.space, this.#network(slot));
    await closeGroup(this.#group(slot));
    await this.podman.removeLog(this.logOf(slot));
    await this.output.forget(this.logOf(slot));
    await rm(this.#stateFile(slot), { force: true });
  }

  /** Returns the address at which the container of the slot is reached. */
  address(slot: Slot): { host: string; port: number } {
    return { host: this.#addresses(slot).container, port: CONTAINER_PORT };
  }

  /** Path of the container's output, in a folder of the project's account. */
  logOf(slot: Slot): string {
    return path.join(pathsOf(this.place).disk.folder, 'store', `${this.#name(slot)}.log`);
  }

  /** Starts a container that does not run. No program in it has a socket before the limit is set. */
  async #startMade(slot: Slot, memoryBytes: number, signal?: AbortSignal): Promise<void> {
    const name = this.#name(slot);
    await this.podman.prepare(name, (command) => inGroup(this.#group(slot), command), signal);
    await limitSocketsOfGroup(this.#group(slot), memoryBytes / MEMORY_PER_SOCKETS);
    await this.podman.start(name, signal);
  }

  /**
   * Writes the files that podman would otherwise write itself, on the disk of this machine and for the container to
   * change, without a limit of their size. Returns them by their paths in the container.
   */
  async #writeOwnFiles(slot: Slot, linkedHost: string | undefined): Promise<Record<string, string>> {
    const { machine, container } = this.#addresses(slot);
    const name = this.#name(slot);
    const linked = linkedHost === undefined ? '' : `${machine} ${linkedHost}\n`;
    const texts = {
      '/etc/hostname': `${name}\n`,
      '/etc/hosts': `127.0.0.1 localhost\n::1 localhost\n${container} ${name}\n${linked}`,
      '/etc/resolv.conf': `nameserver ${machine}\n`,
      '/run/.containerenv': '',
    };
    const files: Record<string, string> = {};
    for (const [target, text] of Object.entries(texts)) {
      const file = path.join(this.place.volatile, `${path.basename(target)}-${slot}`);
      await rm(file, { force: true });
      await writeFile(file, text, { flag: 'wx' });
      await chmod(file, 0o644);
      files[target] = file;
    }
    return files;
  }

  /** Writes a file for each secret. Returns the files by id. */
  async #writeSecrets(secrets: Variables): Promise<Record<string, string>> {
    await mkdir(this.#secretsFolder, { recursive: true, mode: 0o711 });
    const files: Record<string, string> = {};
    for (const [id, value] of Object.entries(secrets)) {
      if (SECRET_ID.test(id)) files[id] = await this.#hand(path.join(SECRETS, id), value);
    }
    return files;
  }

  /** Removes containers that a killed process of the platform did not come to start. They would seem to run. */
  async #removePrepared(): Promise<void> {
    for (const slot of SLOTS) {
      if ((await this.started(slot)) && (await this.podman.isPrepared(this.#name(slot)))) await this.remove(slot);
    }
  }

  /** Writes the variables that have no line break. */
  #writeVariables(slot: Slot, variables: Variables): Promise<string> {
    const lines = Object.entries(variables).flatMap(([name, value]) => (isLong(value) ? [] : [`${name}=${value}\n`]));
    return this.#hand(`variables-${slot}`, lines.join(''));
  }

  /** Stores the variables that have a line break as secrets, as a file of variables can not have them. */
  async #storeLongVariables(slot: Slot, variables: Variables): Promise<Record<string, string>> {
    const prefix = `slot-${slot}-`;
    await this.podman.removeSecrets(prefix);
    const secrets: Record<string, string> = {};
    for (const [name, value] of Object.entries(variables).filter(([, each]) => isLong(each))) {
      const file = await this.#hand('secret', value);
      secrets[name] = `${prefix}${name}`;
      await this.podman.storeSecret(secrets[name], file);
      await rm(file, { force: true });
    }
    return secrets;
  }

  /** Writes a file that only the account of the project can read, beside root of this machine. */
  async #hand(name: string, text: string): Promise<string> {
    const file = path.join(this.place.volatile, name);
    const id = firstIdOf(this.place.number);
    await rm(file, { force: true });
    await writeFile(file, '', { mode: 0o600, flag: 'wx' });
    await chown(file, id, id);
    await writeFile(file, text);
    return file;
  }

  /** Containers that a former process of the platform started keep running. */
  async #openResolvers(): Promise<void> {
    for (const slot of SLOTS) {
      if (await this.started(slot)) this.place.resolver?.open(this.#addresses(slot).machine);
    }
  }

  #addresses(slot: Slot) {
    return addressesOf(pairOf(this.place.number, slot));
  }

  #network(slot: Slot): NetworkPlace {
    const { number, closed, opened } = this.place;
    return { name: this.#name(slot), pair: pairOf(number, slot), closed, ...(opened ? { opened } : {}) };
  }

  #name(slot: Slot): string {
    return nameOf(this.place, slot);
  }

  #group(slot: Slot): string {
    return groupOf(this.place, slot);
  }

  get #buildGroup(): string {
    return buildGroupOf(this.place);
  }

  get #secretsFolder(): string {
    return path.join(this.place.volatile, SECRETS);
  }

  #stateFile(slot: Slot): string {
    return path.join(this.place.volatile, `container-${slot}.json`);
  }
}

type NumberedPlace = Pick<ProjectPlace, 'ref' | 'number' | 'volatile'>;

/** Ends all processes of the containers, and removes all but the images: networks, the space, the volatile folder. */
export async function endContainers(place: NumberedPlace): Promise<void> {
  const space = ProjectSpace.at(spacePlaceOf(place));
  for (const slot of SLOTS) {
    await closeGroup(groupOf(place, slot));
    await closeNetwork(space, { name: nameOf(place, slot), pair: pairOf(place.number, slot) });
  }
  await closeGroup(buildGroupOf(place));
  await space.close();
  await closeDisk({ folder: diskFolderOf(place) });
  // Never the content of something that is still mounted there.
  await systemCommand(['rm', '--recursive', '--force', '--one-file-system', '--', place.volatile]);
}

const nameOf = ({ ref, number }: NumberedPlace, slot: Slot) => `slipway-${ref}-${number}-${slot}`;
const groupOf = ({ number }: NumberedPlace, slot: Slot) => `${number}-${slot}`;
const buildGroupOf = ({ number }: NumberedPlace) => `${number}-build`;
const diskFolderOf = ({ volatile }: NumberedPlace) => path.join(volatile, 'disk');
const spacePlaceOf = ({ number, volatile }: NumberedPlace) => ({
  folder: path.join(volatile, 'space'),
  firstId: firstIdOf(number),
});

/** Is the digest of no settings. */
const UNLINKED = '';

/** Returns a digest of all that makes another container necessary. */
export const digestOf = ({ image, variables, limits, restart, linkedHost }: Omit<ContainerOrder, 'build'>): string =>
  createHash('sha256')
    .update(
      JSON.stringify([image, Object.entries(variables).sort(), Object.entries(limits).sort(), restart, linkedHost]),
    )
    .digest('base64url');

const isTrue = () => true;
const isFalse = () => false;
/** A file that exists during a build, also after a reboot that ended it. */
const buildMarkOf = ({ folder }: ProjectPlace) => path.join(folder, 'building');
/** A folder with the secrets of a build, below the volatile one. */
const SECRETS = 'secrets';

const pathsOf = (place: ProjectPlace) => ({
  disk: { file: path.join(place.folder, 'disk'), folder: diskFolderOf(place) },
  settings: path.join(place.volatile, 'containers.conf'),
  seccomp: path.join(place.volatile, 'seccomp.json'),
});

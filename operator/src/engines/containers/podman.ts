/**
 * The images and containers of one project, by podman's command line. In: the project's space and folders. Out: images
 * by their ids, and containers by name. Every method is idempotent.
 */
import path from 'node:path';
import type { EngineForm } from '@slipway/installation';
import { parseJson } from '@slipway/program';
import type { ProjectSpace } from './project-space.js';
import { type ImageNotes, refuseImage } from './refused-images.js';
import { linesOf, systemCommand } from './system-command.js';

/** The folders belong to the space's root. So this process reads and writes no file in them. */
export interface PodmanPlace {
  /** Images and containers, on the project's disk. */
  store: string;
  /** State of running containers, which a reboot empties. Podman allows 46 characters. */
  volatile: string;
  /** A file with podman's settings (containers.conf), in a folder of this process. */
  settings: string;
  /** A file with the filter of system calls, in the same folder. */
  seccomp: string;
}

export interface BuildOrder {
  /** A folder that the space's root owns. */
  context: string;
  /** Path of the Dockerfile. */
  dockerfile: string;
  /** The start of a command that gives its own command a way to the internet. Empty: there is none. */
  egress: readonly string[];
  /** The address of the proxy there. */
  proxyUrl: string | undefined;
  /** The control group of the build. */
  group: BuildGroup;
  /** Files of secrets that a step may mount, by id. */
  secrets: Readonly<Record<string, string>>;
}

export interface BuildGroup {
  /** The group of the steps, which the space's root may change. */
  steps: string;
  entering: Entering;
}

/** Returns the command that runs `command` in a control group. */
export type Entering = (command: readonly string[]) => Promise<[string, ...string[]]>;

export interface RunOrder {
  name: string;
  /** The image's id, never a name. */
  image: string;
  /** A network namespace, by the path of its file. */
  network: string;
  /** The name of the machine, for the process. */
  hostname: string;
  /** Files of this process that the container can only read, by their path there. */
  files: Readonly<Record<string, string>>;
  /** A file (env-file) with the variables that have no line break. */
  variables: string;
  /** Names of secrets, by the variable that gets the value. */
  secrets: Readonly<Record<string, string>>;
  /** The group of the container's control group, which the space's root may change. */
  group: string;
  memoryBytes: number;
  processors: number;
  processes: number;
  log: { file: string; bytes: number };
}

interface PodmanOptions {
  /** Undefined: the command runs in the group of this process. */
  entering?: Entering;
  signal?: AbortSignal | undefined;
  milliseconds?: number;
}

export class Podman {
  constructor(
    private readonly space: ProjectSpace,
    private readonly place: PodmanPlace,
    private readonly form: EngineForm,
  ) {}

  /**
   * Builds an image, and returns its id. Podman and the steps run in a network of their own, which has nothing but
   * `egress`, and in a control group. All their processes end with the command.
   */
  async build(order: BuildOrder, onOutput: (bytes: Buffer) => void, signal?: AbortSignal): Promise<string> {
    const { context, dockerfile, egress, proxyUrl, group, secrets } = order;
    const idFile = path.join(this.place.volatile, 'image-id');
    const build = [
      'build',
      // The network of podman itself.
      ...['--network=host', '--isolation=oci', '--layers', '--pull=missing', '--format=oci'],
      ...[`--cgroup-parent=${group.steps}`, `--security-opt=seccomp=${this.place.seccomp}`],
      ...Object.entries(secrets).map(([id, file]) => `--secret=id=${id},src=${file}`),
      ...[`--iidfile=${idFile}`, `--file=${dockerfile}`, context],
    ];
    const proxies = proxyUrl === undefined ? {} : { HTTP_PROXY: proxyUrl, HTTPS_PROXY: proxyUrl };
    const apart = ['unshare', '--net', '--pid', '--fork', '--kill-child=KILL', '--mount', '--mount-proc', '--'];
    const command = [...apart, 'sh', '-c', IN_NETWORK, 'sh', ...egress, 'podman', ...this.#globals(), ...build];
    const env = { ...this.#env(), ...proxies };
    await systemCommand(await group.entering(this.space.entering(command)), {
      env,
      onOutput,
      milliseconds: BUILD_MS,
      ...(signal ? { signal } : {}),
    });
    // Read as the space's root, which could have made a link of it.
    const read = await systemCommand(this.space.entering(['head', '--bytes=100', idFile]));
    const id = withoutAlgorithm(read.trim());
    if (!/^[\da-f]{64}$/.test(id)) throw new Error('podman wrote no image id');
    return id;
  }

  /**
   * Deletes the containers and files of a build that was killed. Podman copies the secrets of a step into the folder of
   * its container, on the project's disk.
   */
  async removeKilledBuild(): Promise<void> {
    const listed = await this.#podman(['ps', '--all', '--external', '--format={{.ID}} {{.Status}} {{.Names}}']);
    for (const line of linesOf(listed).filter((each) => KILLED_BUILD.test(each))) {
      await this.#podman(['rm', '--force', line.split(' ')[0] as string]);
    }
    await systemCommand(this.space.entering(['sh', '-c', 'rm -rf -- "$0"/buildah*', this.place.store]));
  }

  /** Returns the version of the library by which podman builds. */
  async buildahVersion(): Promise<string> {
    return (await this.#podman(['info', '--format={{.Host.BuildahVersion}}'])).trim();
  }

  /** Throws Refused if podman would do more with the image than run it. */
  async examine(image: string): Promise<void> {
    const format = '--format={"labels":{{json .Labels}},"annotations":{{json .Annotations}}}';
    const notes = await this.#podman(['image', 'inspect', format, image]);
    refuseImage(parseJson(Buffer.from(notes), MOST_OF_NOTES) as ImageNotes);
  }

  /** Deletes all other images, and the layers that only they have. */
  async keepImages(ids: readonly string[]): Promise<void> {
    const all = linesOf(await this.#podman(['images', '--all', '--quiet', '--no-trunc'])).map(withoutAlgorithm);
    const others = [...new Set(all)].filter((id) => !ids.includes(id));
    // An image that a container or another image needs stays.
    for (const id of others) await this.#podman(['rmi', id]).catch(() => undefined);
  }

  /** Makes a container, in place of one of the same name. `prepare` and `start` start it. */
  async create(order: RunOrder, signal?: AbortSignal): Promise<void> {
    const { name, image, network, hostname, files, variables, secrets, group, log } = order;
    const { memoryBytes, processors, processes } = order;
    await this.#podman(
      [
        'create',
        ...['--replace', '--pull=never', `--name=${name}`, `--network=ns:${network}`, `--hostname=${hostname}`],
        ...Object.entries(files).map(([target, file]) => `--volume=${file}:${target}:ro`),
        ...['--cap-drop=all', '--security-opt=no-new-privileges', `--security-opt=seccomp=${this.place.seccomp}`],
        ...[`--env-file=${variables}`],
        ...Object.entries(secrets).map(([target, secret]) => `--secret=${secret},type=env,target=${target}`),
        ...[`--cgroup-parent=${group}`, `--memory=${memoryBytes}b`, `--memory-swap=${memoryBytes}b`],
        ...[`--cpus=${processors}`, `--pids-limit=${processes}`],
        ...['--log-driver=k8s-file', `--log-opt=path=${log.file}`, `--log-opt=max-size=${log.bytes}b`],
        `--pidfile=${path.join(this.place.volatile, `${name}.pid`)}`,
        image,
      ],
      { signal },
    );
  }

  /** Stores the content of a file as a value that no argument and no file of variables may contain. */
  async storeSecret(name: string, file: string): Promise<void> {
    await this.#podman(['secret', 'create', name, file]);
  }

  async removeSecrets(prefix: string): Promise<void> {
    const names = linesOf(await this.#podman(['secret', 'ls', '--format={{.Name}}']));
    for (const name of names) if (name.startsWith(prefix)) await this.#podman(['secret', 'rm', name]);
  }

  /**
   * Makes the control group of a container that does not run. Its process waits there until `start`. Podman itself must
   * be in a group beside it, as it may not move a process from elsewhere.
   */
  async prepare(name: string, entering: Entering, signal?: AbortSignal): Promise<void> {
    await this.#podman(['init', name], { entering, signal });
  }

  /** Starts the process of a prepared container. */
  async start(name: string, signal?: AbortSignal): Promise<void> {
    await this.#podman(['start', name], { signal });
  }

  /** True if a container was prepared and not started. */
  async isPrepared(name: string): Promise<boolean> {
    const words = ['inspect', '--type=container', '--format={{.State.Status}}', name];
    return (await this.#podman(words).catch(() => '')).trim() === 'initialized';
  }

  /** Sends TERM, and KILL after `seconds`. */
  async stop(name: string, seconds: number): Promise<void> {
    await this.#podman(['stop', `--time=${seconds}`, '--ignore', name], { milliseconds: (seconds + 30) * 1000 });
  }

  async remove(name: string): Promise<void> {
    await this.#podman(['rm', '--force', '--ignore', '--time=0', name]);
  }

  /** Returns the names of the containers, running or not. */
  async containers(): Promise<string[]> {
    return linesOf(await this.#podman(['ps', '--all', '--format={{.Names}}']));
  }

  /**
   * Returns the exit code of a container that has ended. Undefined: there is none. A container whose process of podman
   * was killed still runs for podman, with the code 0.
   */
  async exitCode(name: string): Promise<number | undefined> {
    const format = '--format={{.State.Running}} {{.State.ExitCode}}';
    const state = await this.#podman(['inspect', '--type=container', format, name]).catch(() => '');
    const code = /^false (\d{1,3})$/.exec(state.trim())?.[1];
    return code === undefined ? undefined : Number(code);
  }

  /** Returns the end of a container's log. It is read as the space's root, which could have made a link of it. */
  async lastWords(log: string, bytes: number): Promise<string> {
    const text = await systemCommand(this.space.entering(['tail', `--bytes=${bytes}`, log])).catch(() => '');
    return linesOf(text).map(withoutPrefix).join('\n');
  }

  /** Deletes a container's log, which the next container of the same name would continue. */
  async removeLog(log: string): Promise<void> {
    await systemCommand(this.space.entering(['rm', '--force', '--', log]));
  }

  async #podman(words: readonly string[], options: PodmanOptions = {}) {
    const { entering, signal, milliseconds } = options;
    const command = this.space.entering(['podman', ...this.#globals(), ...words]);
    return systemCommand(entering ? await entering(command) : command, {
      env: this.#env(),
      ...(signal ? { signal } : {}),
      ...(milliseconds === undefined ? {} : { milliseconds }),
    });
  }

  /** The variables of podman, not of a container: variables of a tenant are in a file. */
  #env() {
    const { store, volatile, settings } = this.place;
    return { HOME: volatile, XDG_RUNTIME_DIR: volatile, TMPDIR: store, CONTAINERS_CONF: settings };
  }

  #globals(): string[] {
    const { store, volatile } = this.place;
    const { runtime, driver } = this.form;
    return [
      `--root=${path.join(store, 'images')}`,
      `--runroot=${path.join(volatile, 'run')}`,
      `--tmpdir=${path.join(volatile, 'libpod')}`,
      `--runtime=${runtime}`,
      // The usual folder belongs to root of this machine.
      `--runtime-flag=root=${path.join(volatile, runtime)}`,
      `--storage-driver=${driver}`,
      '--cgroup-manager=cgroupfs',
      '--events-backend=none',
    ];
  }
}

const MOST_OF_NOTES = { bytes: 2 ** 20, depth: 3, values: 20_000 };
const withoutAlgorithm = (id: string) => id.replace(/^sha256:/, '');
/** Drops the time, the stream and the mark that conmon writes before each line. */
const withoutPrefix = (line: string) => line.replace(/^\S+ (stdout|stderr) [FP] /, '');

/** The line of a container that podman lists as no container of its own, with the name that it has in a build. */
const KILLED_BUILD = /^[\da-f]+ Storage \S*working-container(-\d+)?$/;

const BUILD_MS = 20 * 60_000;
/**
 * Connections within the network of a build, and sockets that receive datagrams there. A connection leaves its place
 * two minutes after its end.
 */
const MOST_BUILD_CONNECTIONS = 512;
/**
 * Script that prepares the network of a build. A step sees `/sys` of that network, instead of this machine's. The
 * runtime needs the control groups there.
 *
 * The kernel counts the memory of sockets in no limit of a step, whose group the runtime makes. So each connection has
 * small buffers, and the table bounds their number.
 */
const IN_NETWORK = `ip link set lo up && exec 3</sys/fs/cgroup &&
  mount -t sysfs -o ro,nosuid,nodev,noexec none /sys &&
  mount --no-canonicalize --rbind /proc/self/fd/3 /sys/fs/cgroup && exec 3<&- &&
  for name in tcp_rmem tcp_wmem; do echo '4096 16384 65536' >"/proc/sys/net/ipv4/$name" || exit 1; done &&
  nft 'table inet slipway { chain output {
    type filter hook output priority 0; policy accept; ct state new ct count over ${MOST_BUILD_CONNECTIONS} drop
  }; }' && exec "$@"`;

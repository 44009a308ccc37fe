/**
 * The space in which the containers of one project are built and run: a user namespace with its own ids, and a mount
 * namespace. Podman and its helpers run in it too, so that none of them has a right on this machine, whatever an image
 * or a Dockerfile makes them do. In: the project's folders and the first of its ids. Out: commands that run inside.
 *
 * Files keep the namespaces while no process is in them. A reboot removes them, and `open` makes them again.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readlink, rm, rmdir, stat, unlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { unlessMissing } from '@slipway/program';
import { linesOf, systemCommand } from './system-command.js';

/** Number of ids of a project: as many as an image of a distribution uses. */
export const IDS = 65_536;
const NAMESPACES = { user: 'user', mnt: 'mount' } as const;
const LOOK_MS = 2;
const MOST_LOOKS = 500;

export interface SpacePlace {
  /** A folder of this process, below which nothing else is mounted: the space would hide it. */
  folder: string;
  /** The user id of the space's root on this machine. Its other ids follow. */
  firstId: number;
}

export class ProjectSpace {
  private constructor(readonly place: SpacePlace) {}

  /** Returns the space without a look at whether its namespaces exist. */
  static at(place: SpacePlace): ProjectSpace {
    return new ProjectSpace(place);
  }

  /** Makes the namespaces, unless they exist. */
  static async open(place: SpacePlace): Promise<ProjectSpace> {
    const space = new ProjectSpace(place);
    if (!(await space.#isOpen())) await space.#make();
    return space;
  }

  /** Path of the file that keeps the mount namespace. */
  get mounts(): string {
    return this.#file(NAMESPACES.mnt);
  }

  /** Returns the command that runs `command` as root of the space. */
  entering(command: readonly string[]): [string, ...string[]] {
    const joined = Object.values(NAMESPACES).map((kind) => `--${kind}=${this.#file(kind)}`);
    return ['nsenter', ...joined, '--setuid', '0', '--setgid', '0', '--', ...command];
  }

  /** Makes a file or folder of this machine visible in the space alone, for reading. Returns its path there. */
  async show(name: string, source: string): Promise<string> {
    const shown = path.join(this.place.folder, name);
    await this.hide(name);
    if ((await stat(source)).isDirectory()) await mkdir(shown, { mode: 0o755 });
    else await writeFile(shown, '', { mode: 0o644 });
    const within = ['nsenter', `--mount=${this.mounts}`] as const;
    await systemCommand([...within, 'mount', '--bind', source, shown]);
    await systemCommand([...within, 'mount', '-o', 'remount,bind,ro', shown]);
    return shown;
  }

  /** Ends what `show` began. */
  async hide(name: string): Promise<void> {
    const shown = path.join(this.place.folder, name);
    const unmount = ['nsenter', `--mount=${this.mounts}`, 'umount', '--lazy', shown] as const;
    await systemCommand(unmount).catch(() => undefined);
    // Never recursive: what is shown must stay.
    await unlink(shown).catch(() => rmdir(shown).catch(unlessMissing));
  }

  /**
   * Mounts a disk of this machine in the space again, unless something is mounted below it. The first mount is a copy,
   * whose flags no process of the space may drop, and runc mounts a secret of a build without them. On this machine,
   * the flags stay.
   */
  async mountDisk(folder: string): Promise<void> {
    const within = ['nsenter', `--mount=${this.mounts}`] as const;
    const listed = await systemCommand([
      ...within,
      'findmnt',
      '--raw',
      '--noheadings',
      '--output=TARGET,SOURCE,OPTIONS',
    ]);
    const mounts = linesOf(listed).map((line) => line.split(' ') as [string, string, string]);
    if (mounts.some(([target]) => target.startsWith(`${folder}/`))) return;
    const [, source, options] = mounts.findLast(([target]) => target === folder) ?? [];
    if (!source || !options?.split(',').includes('nosuid')) return;
    // The kernel mounts no file system twice on one folder, but it binds one there.
    const aside = path.join(this.place.folder, 'disk');
    await systemCommand([...within, 'umount', aside]).catch(() => undefined);
    await mkdir(aside, { recursive: true });
    await systemCommand([...within, 'mount', '-o', 'noatime', source, aside]);
    await systemCommand([...within, 'mount', '--bind', aside, folder]);
    await systemCommand([...within, 'umount', aside]);
    await rmdir(aside);
  }

  /** Removes the namespaces once their last process has ended. */
  async close(): Promise<void> {
    for (const kind of Object.values(NAMESPACES)) {
      await systemCommand(['umount', '--lazy', this.#file(kind)]).catch(() => undefined);
      await rm(this.#file(kind), { force: true });
    }
    await systemCommand(['umount', '--lazy', this.place.folder]).catch(() => undefined);
  }

  #file(kind: string): string {
    return path.join(this.place.folder, `${kind}-namespace`);
  }

  async #isOpen(): Promise<boolean> {
    return systemCommand(this.entering(['true'])).then(
      () => true,
      () => false,
    );
  }

  async #make(): Promise<void> {
    await this.close();
    const { folder } = this.place;
    await mkdir(folder, { recursive: true, mode: 0o711 });
    // The kernel refuses to keep a mount namespace in a file whose mount other namespaces share.
    await systemCommand(['mount', '--bind', folder, folder]);
    await systemCommand(['mount', '--make-private', folder]);
    // The namespaces exist before `sleep` runs. It ends once files keep them.
    const holder = spawn('unshare', ['--user', '--mount', '--', 'sleep', '60'], { stdio: 'ignore' });
    const ended = once(holder, 'close').catch(() => undefined);
    try {
      await this.#entered(holder.pid as number);
      for (const map of ['uid_map', 'gid_map']) {
        await writeFile(`/proc/${holder.pid}/${map}`, `0 ${this.place.firstId} ${IDS}\n`);
      }
      for (const [name, kind] of Object.entries(NAMESPACES)) {
        await writeFile(this.#file(kind), '');
        await systemCommand(['mount', '--bind', `/proc/${holder.pid}/ns/${name}`, this.#file(kind)]);
      }
    } finally {
      holder.kill('SIGKILL');
      await ended;
    }
  }

  /** Waits until the process has namespaces of its own. */
  async #entered(pid: number): Promise<void> {
    const own = await readlink('/proc/self/ns/mnt');
    for (let look = 1; look <= MOST_LOOKS; look += 1) {
      if ((await readlink(`/proc/${pid}/ns/mnt`).catch(() => own)) !== own) return;
      await sleep(LOOK_MS);
    }
    throw new Error('this machine gives no user namespace');
  }
}

/**
 * Root folder for one process, in a mount namespace that needs no rights: it has only the system's programs and the
 * files of the process. In: a command and its files. Out: the command that runs it there, with the same process id.
 * Linux only, if unprivileged user namespaces are allowed; otherwise `canSandbox` is false. Takes some 12 ms.
 *
 * The process can't leave: it has no capabilities, can't get new ones, and the kernel makes no user namespace in a
 * changed root. It can't read `/proc/<pid>/root` of others, which are in other user namespaces. Signals to processes of
 * the same account are allowed. The network is shared: `seccomp` denies IPv6, and the program's own permissions decide
 * about IPv4.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import { systemProgram } from './account.js';

/** Absolute paths; others do not exist for the process. */
export interface SandboxFiles {
  readable: readonly string[];
  writable: readonly string[];
}

/** The new root is mounted over this folder, which every Linux has and no sandboxed program needs. */
export const ROOT = '/sys';
const SYSTEM = ['/usr', '/bin', '/lib', '/lib64', '/etc', '/proc', '/dev/null', '/dev/urandom'];
const RESOLVER = '/etc/resolv.conf';
const TOOLS = ['unshare', 'setpriv', 'mount', 'sh'] as const;

/**
 * Script that makes the root folder and starts the process. $1: a table of mounts; $2, $3: the folders and files to
 * mount over, a line each; $4: the working directory. `mount` requires root, which `--map-root-user` provides within
 * the namespace. The parent-death signal is set last, because starting a new program resets it.
 */
const SCRIPT = `set -ef
fstab=$1 folders=$2 files=$3 start=$4
shift 4
mount -t tmpfs -o size=512k,nr_inodes=400,mode=755 none ${ROOT}
cd ${ROOT}
IFS='
'
mkdir -p -- $folders
touch -- $files
printf '%s\\n' "$fstab" >fstab
mount -a -T ${ROOT}/fstab
exec unshare --root=${ROOT} --wd="$start" \\
  setpriv --pdeathsig KILL --no-new-privs --bounding-set=-all --inh-caps=-all -- "$@"`;

export function sandboxed(command: readonly string[], cwd: string, { readable, writable }: SandboxFiles): string[] {
  const { mounts, folders, files } = mountsOf([...system(), ...readable], writable);
  const lists = [mounts, folders, files].map((lines) => lines.join('\n'));
  return ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', SCRIPT, 'sh', ...lists, cwd, ...command];
}

export interface Mounts {
  /** Lines of fstab(5). */
  mounts: string[];
  /** Paths below the new root to create as folders, and as empty files. */
  folders: string[];
  files: string[];
}

/** Returns the mounts of those paths that exist. `mountinfo`: the mounts of this process, as proc(5) describes them. */
export function mountsOf(readable: readonly string[], writable: readonly string[], mountinfo = ownMounts()): Mounts {
  const mount = (flags: string) => (place: string) =>
    `${escaped(place)} ${escaped(ROOT + place)} none rbind,nosuid${flags}${lockedFlags(place, mountinfo)} 0 0`;
  const fixed = readable.filter((place) => existsSync(place));
  const open = writable.filter((place) => existsSync(place));
  const places = [...fixed, ...open];
  const isFolder = (place: string) => statSync(place).isDirectory();
  const inside = (place: string) => `.${place}`;
  const files = places.filter((place) => !isFolder(place));
  const folders = [...places.filter(isFolder), ...files.map((file) => path.dirname(file))];
  return {
    // Writable folders may be inside readable ones, so they are mounted last.
    mounts: [...fixed.map(mount(',ro')), ...open.map(mount(''))],
    folders: folders.map(inside),
    files: files.map(inside),
  };
}

const MOUNTINFO = '/proc/self/mountinfo';
const ownMounts = () => (existsSync(MOUNTINFO) ? readFileSync(MOUNTINFO, 'utf8') : '');

/** Flags of a mount that the kernel denies to remove in a user namespace, so that each further mount repeats them. */
const LOCKED = ['nodev', 'noexec'];

/** Returns the locked flags of the mount with `place`, such as `,nodev,noexec` for /proc on a machine with systemd. */
function lockedFlags(place: string, mountinfo: string): string {
  const real = realpathSync(place);
  const around = mountinfo
    .split('\n')
    .map((line) => line.split(' '))
    .map(([, , , , at = '', options = '']) => ({ at: unescaped(at), options: options.split(',') }))
    .filter(({ at }) => at === '/' || real === at || real.startsWith(`${at}/`));
  // A later mount covers an earlier one at the same place.
  const nearest = around.reduceRight<(typeof around)[number] | undefined>(
    (found, each) => (found && found.at.length >= each.at.length ? found : each),
    undefined,
  );
  return LOCKED.filter((flag) => nearest?.options.includes(flag))
    .map((flag) => `,${flag}`)
    .join('');
}

const unescaped = (text: string) =>
  text.replaceAll(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 8)));

/** Escapes a path as fstab(5) defines it. */
export const escaped = (place: string) =>
  place.replaceAll(/[\\\s#]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`);

/** The resolver's file is often a link to a folder outside of these. */
function system(): string[] {
  const resolver = existsSync(RESOLVER) ? realpathSync(RESOLVER) : RESOLVER;
  return SYSTEM.some((place) => resolver.startsWith(`${place}/`)) ? SYSTEM : [...SYSTEM, resolver];
}

/** Tests whether `sandboxed` works with the ids of the prefix `as`. */
export function canSandbox(as: readonly string[]): boolean {
  if (process.platform !== 'linux' || TOOLS.some((tool) => systemProgram(tool) === undefined)) return false;
  const [program, ...args] = [...as, ...sandboxed(['/bin/true'], '/', { readable: [], writable: [] })] as [string];
  return spawnSync(program, args, { timeout: 5_000, env: { PATH: '/usr/bin:/bin:/usr/sbin:/sbin' } }).status === 0;
}

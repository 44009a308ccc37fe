/**
 * A root folder for one process, in a mount namespace that needs no rights: it has the system's programs and what the
 * process was given, and nothing else of this machine. In: a command and its files. Out: the command that runs it so,
 * under the same process id. Linux alone, where the system lets everyone make user namespaces; elsewhere `canSandbox`
 * is false. It takes some 12 ms.
 *
 * What is in there keeps it in: its capabilities are gone, it gets no new ones, and the kernel makes no user namespace
 * for who is in a changed root. It reads nothing through `/proc/<pid>/root` of others, as they are in other user
 * namespaces. Signals to processes of the same account are not refused, and the network is everyone's.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import { systemProgram } from './account.js';

/** Absolute paths; what is in neither list does not exist for the process. */
export interface SandboxFiles {
  readable: readonly string[];
  writable: readonly string[];
}

/** The new root is mounted over this folder, which every Linux has and no function needs. */
const ROOT = '/sys';
const SYSTEM = ['/usr', '/bin', '/lib', '/lib64', '/etc', '/proc', '/dev/null', '/dev/urandom'];
const RESOLVER = '/etc/resolv.conf';
const TOOLS = ['unshare', 'setpriv', 'mount', 'sh'] as const;

/**
 * $1: a table of mounts; $2, $3: the folders and files, a line each, that they are mounted over; $4: where the command
 * begins. `mount` insists on being root, which `--map-root-user` makes it within its namespace. Who dies with its
 * parent says so last, as a new program forgets it.
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
  const mount = (flags: string) => (place: string) =>
    `${escaped(place)} ${escaped(ROOT + place)} none rbind,nosuid${flags} 0 0`;
  const fixed = [...system(), ...readable].filter((place) => existsSync(place));
  const open = writable.filter((place) => existsSync(place));
  // What can be written may lie in what can be read: it is mounted last.
  const mounts = [...fixed.map(mount(',ro')), ...open.map(mount(''))];
  const places = [...fixed, ...open];
  const isFolder = (place: string) => statSync(place).isDirectory();
  const inside = (place: string) => `.${place}`;
  const files = places.filter((place) => !isFolder(place));
  const folders = [...places.filter(isFolder), ...files.map((file) => path.dirname(file))];
  const given = [mounts, folders.map(inside), files.map(inside)].map((lines) => lines.join('\n'));
  return ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', SCRIPT, 'sh', ...given, cwd, ...command];
}

/** Escapes a path as fstab(5) defines it. */
const escaped = (place: string) =>
  place.replaceAll(/[\\\s#]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`);

/** The resolver's file is often a link to where none of these folders is. */
function system(): string[] {
  const resolver = existsSync(RESOLVER) ? realpathSync(RESOLVER) : RESOLVER;
  return SYSTEM.some((place) => resolver.startsWith(`${place}/`)) ? SYSTEM : [...SYSTEM, resolver];
}

/** Whether `sandboxed` works for who has the ids that `as` gives, by doing it. */
export function canSandbox(as: readonly string[]): boolean {
  if (process.platform !== 'linux' || TOOLS.some((tool) => systemProgram(tool) === undefined)) return false;
  const [program, ...args] = [...as, ...sandboxed(['/bin/true'], '/', { readable: [], writable: [] })] as [string];
  return spawnSync(program, args, { timeout: 5_000, env: { PATH: '/usr/bin:/bin:/usr/sbin:/sbin' } }).status === 0;
}

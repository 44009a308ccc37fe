/**
 * Seals a command off from this machine, for code that must be contained even if it runs arbitrary programs. In: a
 * command, its environment, files and limits, and a Unix socket as its only connection. Out: the command that runs it
 * sealed. Linux only; `sealing` tests whether the system allows it, and `sealed` throws otherwise.
 *
 * The command is process 1 of its own namespaces: mounts, processes, IPC, host name and network, which has only
 * loopback (down if the system has no `ip`). When it ends or is killed, all its processes end. If root starts it, it
 * gets an account and no capability. An ordinary account, or root without CAP_SYS_ADMIN, makes it root of a user
 * namespace, without capabilities. A filter of system calls (`seccomp/calls.ts`) keeps it there.
 *
 * The kernel enforces the limits equally in both modes: RLIMIT_NPROC for processes, RLIMIT_DATA for the memory of each
 * process, RLIMIT_NOFILE for open files, and the size of a tmpfs for disk.
 */
import { spawnSync } from 'node:child_process';
import { type Account, asAccount, identityOf, isRoot, systemProgram } from './account.js';
import type { Command } from './launcher/messages.js';
import { escaped, mountsOf, ROOT, type SandboxFiles } from './sandbox.js';
import { sealedFilter } from './seccomp/calls.js';
import { INSTALLER, installing, type Machine, machineHere } from './seccomp/filter.js';

export interface SealedLimits {
  /** Bytes of private memory that one process may map for writing. Node starts with 1 GiB, but not with 512 MiB. */
  processMemoryBytes: number;
  /** Concurrent processes and threads. Needs a separate account, or Linux 5.14 for an ordinary account. */
  processes: number;
  /** Bytes in the scratch folder, which is in memory. */
  diskBytes: number;
  /** Files and folders in the scratch folder. */
  diskFiles: number;
}

export interface Sealed extends SandboxFiles {
  /** Account to which root changes; undefined unless root starts it. */
  account: Account | undefined;
  /** Deno, which installs the filter of system calls. The account must be allowed to run it. */
  deno: string;
  /** Environment of the command. No variable of it reaches the programs that seal it. */
  env: Readonly<Record<string, string>>;
  /** Absolute path of an empty folder, the working directory, whose content is discarded. */
  scratch: string;
  /** Unix socket to which it may connect. The account must be allowed to write to it. */
  socket: string | undefined;
  limits: SealedLimits;
  /** Replacements of files by path, such as a list of accounts in place of the system's. */
  replaced?: Readonly<Record<string, string>>;
}

/**
 * Folders and devices of the system that a sealed command sees. `/dev/zero` is not among them: a shared mapping of it
 * is memory that no limit counts.
 */
const SYSTEM = ['/usr', '/bin', '/lib', '/lib64', '/etc', '/dev/null', '/dev/random', '/dev/urandom'];
const SYSTEM_PATH = '/usr/bin:/bin:/usr/sbin:/sbin';
const TOOLS = ['unshare', 'setpriv', 'mount', 'prlimit', 'sh'] as const;
const NAMESPACES = ['--mount', '--pid', '--ipc', '--net', '--uts'];
const USER_NAMESPACE = ['--user', '--map-root-user'];
/**
 * Prefix of variables that carry the command's own variables until the filter is installed. Otherwise the loader would
 * apply LD_PRELOAD at once, and `sh` would drop names that it can't use.
 */
const PREFIX = 'SLIPWAY_SEALED_';
const OPEN_FILES = 4096;
const STACK_BYTES = 8 * 2 ** 20;

/**
 * Script that mounts the files, sets the limits and starts the command. $1: a table of mounts; $2, $3: the folders and
 * files to mount over, a line each; $4: the working directory; $5, $6: arguments of `prlimit` and of `setpriv`, a line
 * each. If the machine is out of memory, the kernel kills the command first.
 */
const SCRIPT = `set -ef
fstab=$1 folders=$2 files=$3 start=$4 limits=$5 identity=$6
shift 6
echo 1000 >/proc/self/oom_score_adj
if command -v ip >/dev/null; then ip link set lo up; fi
mount -t tmpfs -o size=512k,nr_inodes=400,mode=755,nosuid,nodev none ${ROOT}
cd ${ROOT}
IFS='
'
mkdir -p -- $folders
touch -- $files
printf '%s\\n' "$fstab" >fstab
mount -a -T ${ROOT}/fstab
rm fstab
mount -o remount,bind,ro ${ROOT}
exec prlimit $limits -- unshare --root=${ROOT} --wd="$start" \\
  setpriv --pdeathsig KILL --no-new-privs $identity --bounding-set=-all --inh-caps=-all -- "$@"`;

/** Namespaces: made by root, or inside a user namespace. */
export type SealForm = 'root' | 'user-namespace';

/** Returns the command that starts the sealed command. Throws if the system can't seal it. */
export function sealed(command: readonly string[], options: Sealed): Command {
  const { form, missing } = (known[`${options.account === undefined} ${options.deno}`] ??= sealing(options));
  if (form === undefined) throw new Error(`The command was not started: this system lacks ${missing}.`);
  return sealedAs(form, command, options);
}

const known: Record<string, Sealing> = {};

export function sealedAs(form: SealForm, command: readonly string[], options: Sealed): Command {
  const { account, env } = options;
  const machine = machineHere();
  if (machine === undefined) throw new Error('There is no filter of system calls for this processor.');
  const byRoot = form === 'root';
  const before = byRoot ? [] : asAccount(account);
  const lists = script(options, byRoot).map((lines) => lines.join('\n'));
  // `setpriv` ends the command with the process that started it, and `--kill-child` ends the command's namespaces with
  // it.
  const dying = ['setpriv', '--pdeathsig', 'KILL', '--'];
  const apart = ['unshare', ...(byRoot ? [] : USER_NAMESPACE), ...NAMESPACES, '--fork', '--kill-child=KILL'];
  const within = [...filtering(options.deno, machine), ...command];
  const [program, ...args] = [...before, ...dying, ...apart, 'sh', '-c', SCRIPT, 'sh', ...lists, ...within] as [string];
  return { command: program, args, cwd: '/', env: { ...hidden(env), PATH: SYSTEM_PATH, DENO_DIR: '/dev/null' } };
}

const filtering = (deno: string, machine: Machine) => installing(deno, sealedFilter(machine), machine, PREFIX);

/** Returns the arguments of `SCRIPT`. */
function script(options: Sealed, byRoot: boolean): string[][] {
  const { account, deno, scratch, socket, limits, readable, writable, replaced = {} } = options;
  const places = mountsOf([...SYSTEM, deno, INSTALLER, ...readable], [...writable, ...(socket ? [socket] : [])]);
  const own = byRoot && account ? `,uid=${account.uid},gid=${account.gid}` : '';
  const size = `size=${limits.diskBytes},nr_inodes=${limits.diskFiles}`;
  const mounts = [
    ...places.mounts,
    ...Object.entries(replaced).map(([at, by]) => `${escaped(by)} ${escaped(ROOT + at)} none bind,ro,nosuid 0 0`),
    `none ${ROOT}/proc proc nosuid,nodev,noexec 0 0`,
    `none ${escaped(ROOT + scratch)} tmpfs ${size},mode=700,nosuid,nodev${own} 0 0`,
  ];
  const folders = [...places.folders, './proc', `.${scratch}`];
  return [mounts, folders, places.files, [scratch], rlimits(limits), byRoot && account ? identityOf(account) : []];
}

const hidden = (env: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(env).map(([name, value], index) => [PREFIX + index, `${name}=${value}`]));

const rlimits = ({ processMemoryBytes, processes }: SealedLimits) => [
  `--data=${processMemoryBytes}`,
  `--nproc=${processes}`,
  `--nofile=${OPEN_FILES}`,
  `--stack=${STACK_BYTES}`,
  '--core=0',
];

export interface Sealing {
  /** Undefined if the system can't seal a command. */
  form?: SealForm;
  /** Missing feature of the system. */
  missing?: string;
}

/** Tests how this system can seal a command. `as`: command prefix of the account that starts it. */
export function sealing({ account, deno }: Pick<Sealed, 'account' | 'deno'>, as: readonly string[] = []): Sealing {
  const machine = machineHere();
  if (machine === undefined) return { missing: 'a filter of system calls, which needs Linux on x64 or arm64' };
  const tool = TOOLS.find((name) => systemProgram(name) === undefined);
  if (tool) return { missing: `the program ${tool}` };
  if (account === undefined && as.length === 0 && isRoot()) return { missing: 'an account other than root' };
  const limits = { processMemoryBytes: 2 ** 30, processes: 1000, diskBytes: 2 ** 20, diskFiles: 100 };
  // A scratch folder at /tmp would hide a Deno that is installed below it.
  const scratch = '/scratch';
  const options = { account, deno, env: {}, scratch, socket: undefined, limits, readable: [], writable: [] };
  const forms: SealForm[] = account ? ['root', 'user-namespace'] : ['user-namespace'];
  let last = '';
  for (const form of forms) {
    const { command, args } = sealedAs(form, ['/bin/true'], options);
    const failure = failureOf([...as, command, ...args]);
    if (failure === undefined) return { form };
    last = failure;
  }
  return { missing: missingWall([...as, ...asAccount(account)], filtering(deno, machine), last) };
}

function missingWall(as: readonly string[], filter: readonly string[], failure: string): string {
  const unshare = [...as, 'unshare', ...USER_NAMESPACE];
  if (!succeeds([...unshare, '/bin/true']))
    return 'user namespaces (user.max_user_namespaces, or the container engine)';
  const namespace = NAMESPACES.find((flag) => !succeeds([...unshare, '--fork', flag, '/bin/true']));
  if (namespace) return `namespaces of the kind ${namespace.slice(2)}`;
  if (!succeeds([...as, ...filter, '/bin/true'])) return 'a filter of system calls';
  return `mounts in a namespace, or limits (${failure})`;
}

const succeeds = (command: readonly string[]) => failureOf(command) === undefined;

/** Runs a command. Returns undefined if it succeeds, else its last line on standard error, or how it ended. */
function failureOf([program, ...args]: readonly string[]): string | undefined {
  const env = { PATH: SYSTEM_PATH, DENO_DIR: '/dev/null' };
  const { status, signal, stderr, error } = spawnSync(program as string, args, { timeout: 10_000, env });
  if (status === 0) return undefined;
  if (error) return error.message;
  return stderr.toString().trim().split('\n').at(-1) || `it ended with ${signal ?? `status ${status}`}`;
}

/**
 * Simulates a machine that never ran Slipway, using namespaces of this one. Its `/tmp`, home folders, npm cache and
 * `/var/lib/slipway` are empty, and its `/etc` is a copy without the account `slipway`. It sees none of this machine's
 * processes. It shares the network and the installed programs. In: a checkout. Out: a terminal in a copy of the
 * checkout. Only for Linux and root.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Terminal } from './terminal.js';

/** An account of the fresh machine: its user id and its home folder. */
export interface User {
  name: string;
  id: number;
  home: string;
}

export const ROOT_USER: User = { name: 'root', id: 0, home: '/root' };
export const ORDINARY_USER: User = { name: 'newcomer', id: 54_321, home: '/home/newcomer' };

/** Matches variables of this machine that a program needs to connect to the package registry. */
const PASSED_ON = /^(https?_proxy|no_proxy|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|SSL_CERT_DIR)$/i;
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const CHECKOUT = 'slipway';

/**
 * Script that makes the fresh machine and runs a shell there. $1 is a folder of this machine with the fresh one's
 * `etc`, `tmp`, `root` and `home`. $2, $3 and $4 are the name, id and home of the user. An overlay hides only
 * /var/lib/slipway, because the system's own programs need everything else in /var/lib.
 */
const SCRIPT = `set -e
files=$1 name=$2 id=$3 home=$4
mkdir "$files/state"
mount -t tmpfs none "$files/state"
mkdir "$files/state/upper" "$files/state/work"
mount -t overlay -o "lowerdir=/var/lib,upperdir=$files/state/upper,workdir=$files/state/work" none /var/lib
rm -rf /var/lib/slipway
sed -i '/^slipway:/d' "$files"/etc/passwd "$files"/etc/group "$files"/etc/shadow "$files"/etc/gshadow
if [ "$id" != 0 ]; then
  echo "$name:x:$id:$id::$home:/bin/bash" >>"$files/etc/passwd"
  echo "$name:x:$id:" >>"$files/etc/group"
fi
mount --bind "$files/etc" /etc
mount --bind "$files/root" /root
mount --bind "$files/home" /home
mount --bind "$files/tmp" /tmp
cd "$home/${CHECKOUT}"
exec setpriv --reuid "$id" --regid "$id" --init-groups bash --noprofile --norc`;

export class FreshMachine {
  readonly terminal: Terminal;
  readonly #folder: string;
  readonly #shell: ChildProcess;

  private constructor(folder: string, shell: ChildProcess) {
    this.#folder = folder;
    this.#shell = shell;
    this.terminal = new Terminal(shell);
  }

  /**
   * Makes a machine with a copy of `checkout`'s sources in the home of `user`, and a terminal of that user. `files` are
   * copied into its /etc, by name, and `variables` are added to its environment.
   */
  static async create(
    checkout: string,
    user: User,
    { files = {}, variables = {} }: { files?: Record<string, string>; variables?: Record<string, string> } = {},
  ): Promise<FreshMachine> {
    const folder = await mkdtemp(path.join(tmpdir(), 'slipway-fresh-'));
    await makeFolders(folder, user);
    for (const [name, source] of Object.entries(files)) await cp(source, path.join(folder, 'etc', name));
    copySources(checkout, path.join(folder, user.home, CHECKOUT));
    execFileSync('chown', ['-R', `${user.id}:${user.id}`, path.join(folder, user.home)]);
    const namespaces = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
    const words = [folder, user.name, String(user.id), user.home];
    const shell = spawn('unshare', [...namespaces, '--', 'sh', '-c', SCRIPT, 'sh', ...words], {
      cwd: '/',
      env: { ...environmentOf(user), ...variables },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    return new FreshMachine(folder, shell);
  }

  /** Ends all processes of the machine, and removes its files. */
  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#shell.once('close', resolve));
    if (this.#shell.exitCode === null && this.#shell.signalCode === null) {
      this.#shell.kill('SIGKILL');
      await ended;
    }
    await rm(this.#folder, { recursive: true, force: true });
  }
}

async function makeFolders(folder: string, user: User): Promise<void> {
  await cp('/etc', path.join(folder, 'etc'), { recursive: true, verbatimSymlinks: true });
  for (const [name, mode] of [
    ['tmp', 0o1777],
    ['root', 0o700],
    ['home', 0o755],
  ] as const) {
    await mkdir(path.join(folder, name));
    // mkdir would remove the bits of the umask from the mode.
    execFileSync('chmod', [mode.toString(8), path.join(folder, name)]);
  }
  await mkdir(path.join(folder, user.home, CHECKOUT), { recursive: true });
}

/** Copies all files that a commit of the current state would contain. */
function copySources(checkout: string, target: string): void {
  const list = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: checkout });
  const archive = execFileSync('tar', ['--create', '--null', '--files-from=-', '--ignore-failed-read'], {
    cwd: checkout,
    input: list,
    maxBuffer: 2 ** 30,
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  execFileSync('tar', ['--extract', '--directory', target], { input: archive });
}

function environmentOf({ name, home }: User): Record<string, string | undefined> {
  const passedOn = Object.entries(process.env).filter(([key]) => PASSED_ON.test(key));
  // The registry may be configured in a home folder that the fresh machine does not have.
  const registry = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).trim();
  const own = { PATH, HOME: home, USER: name, LOGNAME: name, LANG: 'C.UTF-8', npm_config_registry: registry };
  return { ...Object.fromEntries(passedOn), ...own };
}

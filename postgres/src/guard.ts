/**
 * Stops a server after the process that started it has ended. In: a command and its spawn options. Out: the running
 * command. Once this process has ended for any reason, the command gets SIGINT, then SIGQUIT, then SIGKILL. Called by
 * `server.ts`.
 *
 * The guard is a shell of 1 MB that reads a pipe from this process. The kernel closes the pipe when this process ends.
 * The server starts only after its guard runs, and a killed guard is replaced. On Linux the kernel also sends SIGINT to
 * the server (`setpriv --pdeathsig`), in case this process and the guard are killed together.
 */
import { type ChildProcess, execFile, type SpawnOptions, spawn } from 'node:child_process';
import { promisify } from 'node:util';

/** Arguments: the server's process id, and the real path of its data folder, where all its processes work. */
const GUARD = `
pid=$1 folder=$2
trap '' HUP INT TERM
if [ -d /proc/self ]; then linux=1; else linux=; fi

# On Linux this is false if another process has the number by now, or if the process is only not reaped yet.
is_running() {
  kill -0 "$1" 2>/dev/null && { [ -z "$linux" ] || [ "/proc/$1/cwd" -ef "$folder" ]; }
}
# True for a process whose postmaster was killed. Never true for a process of a server that was started later.
is_orphan() {
  is_running "$1" || return 1
  IFS= read -r title <"/proc/$1/cmdline"
  case $title in 'postgres: '*) ;; *) return 1 ;; esac
  while read -r field value; do
    if [ "$field" = PPid: ]; then ! is_running "$value"; return; fi
  done <"/proc/$1/status"
  return 1
}
end_by() {
  is_running "$pid" && kill -s "$1" "$pid" || return
  tenths=$2
  while [ "$tenths" -gt 0 ] && is_running "$pid"; do sleep 0.1; tenths=$((tenths - 1)); done
}

while read -r line; do :; done
exec 2>/dev/null
end_by INT 30
end_by QUIT 5
children=
if [ -z "$linux" ] && is_running "$pid"; then
  children=$(ps -A -o pid= -o ppid= | while read -r child parent; do [ "$parent" != "$pid" ] || echo "$child"; done)
fi
end_by KILL 5
for child in $children; do kill -s KILL "$child"; done
[ -n "$linux" ] || exit 0
for found in /proc/[0-9]*; do
  if is_orphan "\${found#/proc/}"; then kill -s KILL "\${found#/proc/}"; fi
done
`;

/**
 * Executes the server, with the same process id, after the first line of input. Exits if its input ends before that.
 */
const GATE = 'read -r line && exec "$@" </dev/null';
const RESPAWN_MS = 500;

/** Spawns `command` with a guard and without an input. `options.cwd` is the real path of the data folder. */
export async function spawnGuarded(
  command: string,
  args: string[],
  options: SpawnOptions & { cwd: string },
): Promise<ChildProcess> {
  const [program, ...rest] = [...(await parentDeathSignal()), 'sh', '-c', GATE, 'sh', command, ...args];
  const [, stdout, stderr] = options.stdio as ('ignore' | 'pipe')[];
  // In its own process group, so that Ctrl-C in the terminal signals only the platform, which then stops all in order.
  const child = spawn(program as string, rest, { ...options, detached: true, stdio: ['pipe', stdout, stderr] });
  // The gate may have been killed.
  child.stdin?.on('error', () => {});
  if (child.pid === undefined) return child;
  guard(child, child.pid, options);
  child.stdin?.end('\n');
  return child;
}

function guard(child: ChildProcess, pid: number, { cwd, uid, gid }: SpawnOptions & { cwd: string }): void {
  let shell: ChildProcess | undefined;
  let respawn: NodeJS.Timeout | undefined;
  const again = () => {
    respawn = setTimeout(watch, RESPAWN_MS);
  };
  const watch = () => {
    // The guard runs as the server's account, so it can't signal other accounts' processes.
    const account = { ...(uid !== undefined && { uid }), ...(gid !== undefined && { gid }) };
    const options: SpawnOptions = {
      ...account,
      cwd: '/',
      env: { PATH: process.env.PATH },
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    };
    try {
      shell = spawn('sh', ['-c', GUARD, 'sh', String(pid), cwd], options);
    } catch {
      // spawn throws at once if the machine has no memory for another process.
      return again();
    }
    shell.stdin?.on('error', () => {});
    shell.once('error', again).once('exit', again);
  };
  watch();
  child.once('exit', () => {
    clearTimeout(respawn);
    shell
      ?.off('error', again)
      .off('exit', again)
      .on('error', () => {})
      .kill('SIGKILL');
  });
}

let found: Promise<string[]> | undefined;

/**
 * Returns the command prefix that makes the kernel signal a program once this process has ended. Empty if the system
 * has no such command.
 */
export function parentDeathSignal(): Promise<string[]> {
  if (process.platform !== 'linux') return Promise.resolve([]);
  const command = ['setpriv', '--pdeathsig', 'INT'];
  found ??= promisify(execFile)('setpriv', [...command.slice(1), 'true']).then(
    () => command,
    () => [],
  );
  return found;
}

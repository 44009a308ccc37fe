/**
 * Tests attacks from a process that is sealed off from the machine and runs arbitrary programs. Root starts the
 * process, or an ordinary account.
 */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { isAlive, parentOf, until } from '@slipway/testing';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Account, asAccount, isReachable, isRoot } from './account.js';
import { CALLS } from './attacks.testing.js';
import { Launcher } from './launcher/launcher.js';
import { watchMemory } from './memory-watch.js';
import { type Sealed, type SealForm, sealedAs, sealing } from './sealed.js';
import { DENIED } from './seccomp/calls.js';
import { machineHere } from './seccomp/filter.js';

const run = promisify(execFile);
const PATH = '/usr/bin:/bin:/usr/sbin:/sbin';
const MIB = 2 ** 20;
const LIMITS = { processMemoryBytes: 1024 * MIB, processes: 60, diskBytes: 4 * MIB, diskFiles: 50 };
const SECRET = 'the-neighbours-secret';

interface Mode {
  name: string;
  /** Command prefix that changes the test's process to the account that starts it. */
  as: string[];
  account: Account | undefined;
  form: SealForm;
}
const ordinary: Mode = {
  name: 'started by an ordinary account',
  as: asAccount(isRoot() ? { uid: 65_534, gid: 65_534 } : undefined),
  account: undefined,
  form: 'user-namespace',
};
const account = { uid: 1_500_000_000, gid: 1_500_000_000 };
const byRoot: Mode = { name: 'started by root', as: [], account, form: 'root' };
const WITHOUT = ['setpriv', '--bounding-set=-sys_admin', '--inh-caps=-all', '--'];
const bound: Mode = { name: 'started by root without CAP_SYS_ADMIN', as: WITHOUT, account, form: 'user-namespace' };
const MODES: Mode[] = isRoot() ? [ordinary, byRoot, bound] : [ordinary];

const root = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
chmodSync(root, 0o755);
const [own, neighbours] = ['own', 'neighbours'].map((name) => {
  mkdirSync(path.join(root, name));
  return path.join(root, name);
}) as [string, string];
const secret = path.join(neighbours, 'secret');
/** Program that every account can run. */
const reachable = (program: string) => {
  if (isReachable(program)) return program;
  const copy = path.join(root, path.basename(program));
  copyFileSync(program, copy);
  return copy;
};
const node = reachable(process.execPath);
const packaged = import.meta.resolve(`@deno/linux-${process.arch}-glibc/package.json`);
const deno = reachable(fileURLToPath(new URL('deno', packaged)));
const way = path.join(root, 'way.sock');
const other = path.join(root, 'other.sock');
const abstract = `\0slipway-test-${process.pid}`;
const servers: Server[] = [];
const listen = async (where: string | number) => {
  const server = createServer((socket) => socket.on('error', () => undefined).end('reached'));
  servers.push(server.listen(where as string));
  await once(server, 'listening');
  if (typeof where === 'string' && where.startsWith('/')) chmodSync(where, 0o666);
  return server;
};

test.before(async () => {
  writeFileSync(secret, SECRET);
  chmodSync(secret, 0o666);
  for (const folder of [own, neighbours]) chmodSync(folder, 0o777);
  for (const place of [way, other, abstract]) await listen(place);
});
test.after(() => {
  for (const server of servers) server.close();
  rmSync(root, { recursive: true, force: true });
});

/** Returns the command that starts it, and its environment. */
function startOf({ as, account, form }: Mode, program: readonly string[], overrides: Partial<Sealed> = {}) {
  const files = { readable: [node, own], writable: [], socket: way, env: { PATH } };
  const options = { account, deno, scratch: '/scratch', limits: LIMITS, ...files, ...overrides };
  const { command, args, env } = sealedAs(form, program, options);
  const [first, ...others] = [...as, command, ...args] as [string];
  return { command: first, args: others, env };
}

async function inside(mode: Mode, program: readonly string[], overrides?: Partial<Sealed>): Promise<string> {
  const { command, args, env } = startOf(mode, program, overrides);
  return await run(command, args, { cwd: '/', env, timeout: 60_000 }).then(
    ({ stdout }) => stdout.trim(),
    ({ stdout, stderr }: { stdout: string; stderr: string }) => `${stdout}${stderr}`.trim(),
  );
}
const shell = (mode: Mode, script: string, overrides?: Partial<Sealed>) =>
  inside(mode, ['/bin/sh', '-c', script], overrides);

/** Prints the value to which `expression` resolves, or the error's code. */
const evaluated = (mode: Mode, expression: string) =>
  inside(mode, [
    node,
    '--eval',
    `const fs = require('node:fs'), net = require('node:net');
     const connect = (...to) => new Promise((resolve, reject) => {
       net.connect(...to).on('error', reject).on('data', (data) => resolve(String(data)));
     });
     (async () => ${expression})().then(console.log, (error) => console.log(error.code ?? error.message));`,
  ]);

for (const mode of MODES) {
  const { name, account, as } = mode;
  const { missing } = sealing({ account, deno }, as);
  if (missing) {
    console.log(`# skipped: the system seals no process that is ${name}, as it does not give ${missing}`);
    continue;
  }

  test(`${name}, a process is sealed in the form that its rights allow`, () => {
    assert.is(sealing({ account, deno }, as).form, mode.form);
  });

  test(`${name}, a process is sealed when Deno is installed below /tmp`, () => {
    const folder = mkdtempSync('/tmp/slipway-test-');
    try {
      chmodSync(folder, 0o755);
      symlinkSync(deno, path.join(folder, 'deno'));
      assert.is(sealing({ account, deno: path.join(folder, 'deno') }, as).form, mode.form);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test(`${name}, a sealed process has its scratch folder and files`, async () => {
    writeFileSync(path.join(own, 'given'), 'given');
    assert.is(await shell(mode, `pwd; echo kept >file; cat file ${own}/given`), '/scratch\nkept\ngiven');
    assert.is(await shell(mode, 'ls'), '');
  });

  test(`${name}, a sealed process sees no file of others and can’t change system files`, async () => {
    for (const place of [secret, neighbours, other, '/var', '/root', '/home', '/run', '/sys', '/dev/shm'])
      if (!node.startsWith(`${place}/`))
        assert.is(await evaluated(mode, `fs.lstatSync(${JSON.stringify(place)})`), 'ENOENT', place);
    for (const place of ['/', '/usr', '/etc', '/dev', '/proc', own])
      assert.match(await evaluated(mode, `fs.writeFileSync('${place}/made', 'x')`), /^E(ROFS|ACCES|NOENT)$/, place);
  });

  test(`${name}, a sealed process sees and kills only its own processes`, async () => {
    const neighbour = spawn('sleep', ['600'], { stdio: 'ignore', ...(account ?? identity(as)) });
    try {
      assert.is(await shell(mode, 'echo /proc/[0-9]*'), '/proc/1');
      assert.match(await shell(mode, `exec 2>&1; kill -9 ${neighbour.pid}; kill -9 -1; echo alive`), /No such process/);
      assert.ok(isAlive(neighbour.pid as number));
    } finally {
      neighbour.kill('SIGKILL');
    }
  });

  test(`${name}, a sealed process shares no memory segment and no namespace`, async () => {
    const segment = /(\d+)\s*$/.exec(
      execFileSync('ipcmk', ['--shmem', '4096', '--mode', '0666'], { encoding: 'utf8' }),
    );
    try {
      const [, id] = segment ?? [];
      assert.match(execFileSync('ipcs', ['-m'], { encoding: 'utf8' }), new RegExp(`\\b${id}\\b`));
      assert.is(await shell(mode, 'tail -n +2 /proc/sysvipc/shm'), '');
    } finally {
      execFileSync('ipcrm', ['--shmem-id', (segment ?? [])[1] as string]);
    }
    const links = 'cd /proc/self/ns && readlink mnt pid ipc net uts';
    const everyones = execFileSync('sh', ['-c', links], { encoding: 'utf8' }).trim().split('\n');
    const its = (await shell(mode, links)).split('\n');
    assert.is(its.length, 5);
    assert.equal(
      its.filter((each) => everyones.includes(each)),
      [],
    );
  });

  test(`${name}, a sealed process can connect only to its socket`, async () => {
    const { port } = (await listen(0)).address() as AddressInfo;
    assert.is(await evaluated(mode, `connect(${JSON.stringify(way)})`), 'reached');
    assert.is(await evaluated(mode, `connect(${JSON.stringify(other)})`), 'ENOENT');
    assert.is(await evaluated(mode, `connect(${JSON.stringify(abstract)})`), 'ECONNREFUSED');
    assert.is(await evaluated(mode, `connect(${port}, '127.0.0.1')`), 'ECONNREFUSED');
    assert.is(await evaluated(mode, `connect(53, '192.0.2.1')`), 'ENETUNREACH');
    assert.equal((await shell(mode, 'tail -n +3 /proc/net/dev')).match(/\w+(?=:)/g), ['lo']);
  });

  test(`${name}, a sealed process gains no rights, and enters no other namespace`, async () => {
    const rights = await shell(mode, 'grep ^Cap /proc/self/status');
    assert.is(rights.replaceAll(/Cap...:\s+/g, '').replaceAll('\n', ''), '0'.repeat(80));
    for (const command of [
      ['unshare', '--user', 'true'],
      ['unshare', '--net', 'true'],
      ['chroot', '/usr', '/bin/true'],
      ['mount', '-o', 'remount,rw', '/'],
      ['umount', '/scratch'],
      ['nsenter', '--target', '1', '--user', '--mount', 'true'],
    ])
      assert.match(await inside(mode, command), /not permitted|denied|must be superuser|Invalid/, command.join(' '));
  });

  test(`${name}, the kernel denies a sealed process system calls and sockets that builds do not need`, async () => {
    const column = machineHere()?.column ?? 0;
    const script = path.join(own, 'calls.js');
    writeFileSync(script, CALLS);
    const env = { PATH, DENO_DIR: '/dev/null' };
    const attack = (calls: string[]) => [deno, 'run', '--allow-all', script, ...calls];
    const made = async (calls: string[], start = startOf(mode, attack(calls), { env })) => {
      const { stdout } = await run(start.command, start.args, { env: start.env });
      return stdout.trim().split(' ').map(Number);
    };
    for (const { why, error, calls } of DENIED) {
      const numbers = Object.values(calls).map((each) => String(each[column]));
      assert.equal(await made(numbers), Array(numbers.length).fill(error), why);
    }
    const [socket, socketpair, clone, mmap, setsockopt] = [
      [41, 198],
      [53, 199],
      [56, 220],
      [9, 222],
      [54, 208],
    ].map((each) => each[column]);
    const [EPERM, EBADF, EFAULT, EINVAL, EPROTONOSUPPORT, EAFNOSUPPORT] = [1, 9, 14, 22, 93, 97];
    const attacks: [call: string, sealed: number, free: number][] = [
      // AF_ALG: without the filter, the kernel may lack it.
      [`${socket} 38 5 0`, EAFNOSUPPORT, -1],
      [`${socketpair} 38 5 0`, EAFNOSUPPORT, -1],
      [`${socket} 40 1 0`, EAFNOSUPPORT, -1],
      [`${socket} 16 3 12`, EPROTONOSUPPORT, 0],
      [`${socket} 2 1 132`, EPROTONOSUPPORT, -1],
      [`${socket} 16 3 0`, 0, 0],
      [`${socket} 10 1 6`, 0, 0],
      [`${socketpair} 1 1 0`, EFAULT, EFAULT],
      // CLONE_NEWUSER and CLONE_THREAD: without the filter, the kernel would reject the combination.
      [`${clone} ${0x1001_0000}`, EPERM, EINVAL],
      // SO_SNDBUF is ignored, even for other file descriptors. SO_KEEPALIVE is not.
      [`${setsockopt} -1 1 7`, 0, EBADF],
      [`${setsockopt} -1 1 9`, EBADF, EBADF],
      [`${mmap} 0 4096 3 ${0x21} -1 0`, EPERM, 0],
      [`${mmap} 0 4096 3 ${0x22} -1 0`, 0, 0],
    ];
    const calls = attacks.map(([call]) => call);
    assert.equal(
      await made(calls),
      attacks.map(([, denied]) => denied),
    );
    const [command, ...args] = [...asAccount(account), ...attack(calls)] as [string];
    const free = await made(calls, { command, args, env });
    for (const [at, [call, , expected]] of attacks.entries()) if (expected >= 0) assert.is(free[at], expected, call);
  });

  test(`${name}, variables reach only the sealed process`, async () => {
    const library = path.join(own, 'preloaded.so');
    writeFileSync(library, 'no library');
    const env = { PATH, LD_PRELOAD: library, DENO_V8_FLAGS: '--no-such-flag', 'a-b': 'two\nlines', BASH_ENV: '/x' };
    const start = startOf(mode, [node, '--print', 'JSON.stringify(process.env)'], { env });
    const { stdout, stderr } = await run(start.command, start.args, { env: start.env });
    assert.equal(JSON.parse(stdout), env);
    // The loader of each program that gets the variable prints a warning.
    assert.is(stderr.match(/ld\.so/g)?.length, 1, stderr);
  });

  test(`${name}, a sealed process can’t raise its limits`, async () => {
    for (const limit of ['data', 'nproc', 'nofile', 'stack', 'core'])
      assert.match(await inside(mode, ['prlimit', `--${limit}=unlimited`, 'true']), /not permitted/, limit);
  });

  test(`${name}, processes, memory and disk have limits`, async () => {
    const few = { limits: { ...LIMITS, processes: 12 } };
    const forks = 'for each in $(seq 30); do sleep 5 & echo started; done; wait';
    const forked = await shell(mode, forks, few);
    assert.match(forked, /Cannot fork|Resource temporarily unavailable|Fork failed/i);
    assert.ok((forked.match(/started/g) ?? []).length < 12, forked);
    const allocate = (bytes: number) => `Buffer.alloc(${bytes}, 1).length`;
    assert.is(await evaluated(mode, allocate(64 * MIB)), String(64 * MIB));
    assert.match(await evaluated(mode, allocate(1024 * MIB)), /allocat|memory/i);
    assert.match(await shell(mode, 'yes | head -c 5m >file; wc -c <file'), new RegExp(`^${LIMITS.diskBytes}\\b`));
    const made = await shell(mode, 'for each in $(seq 100); do touch $each || break; done 2>/dev/null; ls | wc -l');
    assert.ok(Number(made) < LIMITS.diskFiles && Number(made) > 30, made);
  });

  test(`${name}, the memory watch kills a sealed command whose processes together exceed the limit`, async () => {
    const launcher = new Launcher(pino({ level: 'silent' }));
    const started = async (program: string[], limitBytes: number) => {
      const { command, args, env } = startOf(mode, program, { limits: { ...LIMITS, processMemoryBytes: 2048 * MIB } });
      const launched = launcher.start({ command, args, cwd: '/', env });
      launched.stderr.resume();
      const [output, exceeded] = await Promise.all([text(launched.stdout), watchMemory(launched, limitBytes)]);
      return { output, exceeded };
    };
    const evaluating = (script: string) => [node, '--eval', script];
    const little = await started(
      evaluating(`Buffer.alloc(${64 * MIB}, 1); setTimeout(() => console.log('end'), 500)`),
      512 * MIB,
    );
    assert.equal(little, { output: 'end\n', exceeded: undefined });
    const endless = ' setInterval(() => undefined, 1000);';
    const many = `for (let each = 0; each < 4; each++) require('node:child_process').spawn(process.execPath, ['--eval',
      'globalThis.kept = Buffer.alloc(${150 * MIB}, 1); console.log("filled");${endless}'],
      { detached: true, stdio: 'inherit' });`;
    const sockets = `const { connect, createServer } = require('node:net');
      const next = () => connect('s', next).on('error', () => undefined);
      createServer(() => undefined).listen('s', next);`;
    for (const attack of [many, sockets]) {
      const { exceeded } = await started(evaluating(attack + endless), 512 * MIB);
      assert.ok(exceeded !== undefined && exceeded > 512 * MIB, attack);
    }
    launcher.close();
  });

  test(`${name}, a sealed command ends with all its processes when it exits or its launcher does`, async () => {
    const mark = `6${process.pid}${MODES.indexOf(mode)}`;
    const daemons = ['/bin/sh', '-c', `setsid sleep ${mark} & sleep ${mark}`];
    const { command, args, env } = startOf(mode, daemons);
    const processes = () => Number(execFileSync('sh', ['-c', `ps ax -o args | grep -c '^sleep ${mark}' || true`]));
    const direct: ChildProcess = spawn(command, args, { env });
    await until(() => processes() === 2, 'its processes');
    direct.kill('SIGKILL');
    await until(() => processes() === 0, 'their end');
    const launcher = new Launcher(pino({ level: 'silent' }));
    const launched = launcher.start({ command, args, cwd: '/', env });
    for (const output of [launched.stdout, launched.stderr]) output.resume();
    const pid = await until(() => launched.pid, 'its start');
    await until(() => processes() === 2, 'its processes');
    process.kill(parentOf(pid), 'SIGKILL');
    await until(() => processes() === 0, 'their end');
    launcher.close();
  });
}

test('a system without user namespaces rejects a sealed command with the reason', async () => {
  const module = (name: string) => JSON.stringify(new URL(name, import.meta.url).href);
  const script = `import { sealed, sealing } from ${module('./sealed.js')};
    const account = { uid: 65534, gid: 65534 };
    const options = { account, deno: ${JSON.stringify(deno)}, env: {}, scratch: '/s', limits: ${JSON.stringify(LIMITS)},
      readable: [], writable: [] };
    console.log(sealing({ deno: options.deno }, ['setpriv', '--bounding-set=-all', '--inh-caps=-all', '--']).missing);
    console.log(sealing({ deno: options.deno }).missing);
    try { sealed(['/bin/true'], options); } catch (error) { console.log(error.message); }`;
  const none = 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"';
  const words = [node, '--input-type=module', '--eval', script];
  const all = ['unshare', '--user', '--map-root-user', 'sh', '-c', none, 'sh', ...words];
  const { stdout } = await run('env', all, { env: { PATH } });
  const [ordinarily, asRoot, refused] = stdout.trim().split('\n');
  assert.match(ordinarily ?? '', /^user namespaces/);
  assert.is(asRoot, 'an account other than root');
  assert.match(refused ?? '', /^The command was not started: .*user namespaces/);
});

/** Returns the ids in arguments of `setpriv`. */
function identity(as: string[]): Partial<Account> {
  const after = (word: string) => Number(as[as.indexOf(word) + 1]);
  return as.length > 0 ? { uid: after('--reuid'), gid: after('--regid') } : {};
}

test.run();

/** Attacks of a process in the sandbox with all of Deno's permissions, as if Deno had a hole. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { asAccount, isRoot } from './account.js';
import { installedDeno } from './deno.js';
import { canSandbox, sandboxed } from './sandbox.js';

const run = promisify(execFile);
const NOBODY = { uid: 65_534, gid: 65_534 };
const as = asAccount(isRoot() ? NOBODY : undefined);
const SECRET = 'the-neighbours-secret';

if (!canSandbox(as)) console.log('# skipped: the system gives no user namespaces');
else {
  const root = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
  const [own, written, neighbours] = ['own sources #1', 'own sources #1/.cache', 'neighbours'].map((name) => {
    const folder = path.join(root, name);
    mkdirSync(folder);
    // As an account that all share could change them.
    chmodSync(folder, 0o777);
    return folder;
  }) as [string, string, string];
  chmodSync(root, 0o755);
  const secret = path.join(neighbours, 'secret');
  const script = path.join(own, 'attack.js');
  let neighbour: ChildProcess;

  const inSandbox = async (program: string[]) => {
    const [command, ...args] = [
      ...as,
      ...sandboxed(program, own, { readable: [installedDeno(), own], writable: [written] }),
    ] as [string];
    // Deno may make no folder of its own here.
    return await run(command, args, {
      cwd: '/',
      env: { PATH: '/usr/bin:/bin:/usr/sbin', NO_COLOR: '1', DENO_DIR: written },
    });
  };
  const attempt = async (expression: string): Promise<string> => {
    writeFileSync(
      script,
      `try { console.log('got', await (${expression})) } catch (error) { console.log(error.name) }`,
    );
    const { stdout } = await inSandbox([installedDeno(), 'run', '--allow-all', '--no-config', script]);
    return stdout.trim();
  };

  test.before(async () => {
    writeFileSync(secret, SECRET);
    chmodSync(secret, 0o666);
    const waiting = ['/bin/sh', '-c', `echo up; exec sleep 600`];
    const [command, ...args] = [...as, ...sandboxed(waiting, '/', { readable: [], writable: [] })] as [string];
    neighbour = spawn(command, args, {
      env: { PATH: '/usr/bin:/bin', SECRET },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(neighbour.stdout as NodeJS.ReadableStream, 'data');
  });
  test.after(() => {
    neighbour?.kill('SIGKILL');
    rmSync(root, { recursive: true, force: true });
  });

  test('it reads what it was given, in folders of any name, and writes where it may', async () => {
    assert.match(await attempt('Deno.readTextFile("attack.js")'), /^got try/);
    assert.is(await attempt(`Deno.writeTextFile(${JSON.stringify(path.join(written, 'x'))}, "kept")`), 'got undefined');
    assert.is(readFileSync(path.join(written, 'x'), 'utf8'), 'kept');
    assert.match(await attempt('Deno.resolveDns("localhost", "A").catch(() => "asked")'), /^got/);
  });

  test('files of the platform and of neighbours are not there, whatever their modes', async () => {
    for (const place of [secret, neighbours, process.execPath, '/var', '/root', '/home', '/run'])
      if (!place.startsWith('/usr/'))
        assert.is(await attempt(`Deno.lstat(${JSON.stringify(place)})`), 'NotFound', place);
    const [above] = path.relative(path.dirname(root), installedDeno()).split(path.sep);
    const visible = [path.basename(root), ...(above === '..' ? [] : [above])].sort();
    const beside = `Array.fromAsync(Deno.readDir(${JSON.stringify(path.dirname(root))}), ({ name }) => name)`;
    assert.is(
      await attempt(`${beside}.then((names) => JSON.stringify(names.sort()))`),
      `got ${JSON.stringify(visible)}`,
    );
    assert.is(await attempt(`Deno.writeTextFile(${JSON.stringify(secret)}, "changed")`), 'NotFound');
    assert.is(readFileSync(secret, 'utf8'), SECRET);
  });

  test('what it may read it can’t change', async () => {
    for (const place of [own, '/usr', '/etc', '/proc'])
      assert.match(await attempt(`Deno.writeTextFile(${JSON.stringify(path.join(place, 'made'))}, "x")`), /^[A-Z]/);
    assert.not(existsSync(path.join(own, 'made')));
  });

  test('neighbours’ processes, and the platform’s, show it nothing of theirs', async () => {
    for (const pid of [neighbour.pid, process.pid, process.ppid])
      for (const file of ['environ', 'root', 'root/etc/hostname', 'cwd', 'mem', 'fd', 'ns/mnt'])
        for (const read of ['readTextFile', 'readLink']) {
          const said = await attempt(`Deno.${read}("/proc/${pid}/${file}")`);
          assert.match(said, /^[A-Z]/, `${read} ${file}: ${said}`);
        }
  });

  test('it gets no rights, and leaves by no namespace', async () => {
    const { stdout } = await inSandbox(['/bin/grep', '^Cap[IPEB]', '/proc/self/status']);
    assert.is(stdout.replaceAll(/^Cap...:\s+/gm, '').replaceAll('\n', ''), '0'.repeat(64));
    for (const command of [
      ['unshare', '--user', 'true'],
      ['unshare', '--mount', 'true'],
      ['chroot', '/usr', '/bin/true'],
      ['mount', '-t', 'tmpfs', 'none', '/etc'],
      ['umount', '/usr'],
      ['nsenter', '--target', String(process.pid), '--user', '--mount', 'true'],
    ]) {
      const failure = await inSandbox(command).then(
        () => 'done',
        (error: { stderr: string }) => error.stderr,
      );
      assert.match(failure, /not permitted|denied|must be superuser/, `${command.join(' ')}: ${failure}`);
    }
  });
}

test.run();

/** Tests attacks from a sandboxed process that has all of Deno's permissions, as after an exploit of Deno. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { asAccount, canSandbox, installedDeno, isRoot, sandboxed } from '@slipway/sandbox';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

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
    // An account that all functions share could change them.
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
    // Deno may not create folders here.
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

  test('a sandboxed process reads its paths, in folders of any name, and writes only where allowed', async () => {
    assert.match(await attempt('Deno.readTextFile("attack.js")'), /^got try/);
    assert.is(await attempt(`Deno.writeTextFile(${JSON.stringify(path.join(written, 'x'))}, "kept")`), 'got undefined');
    assert.is(readFileSync(path.join(written, 'x'), 'utf8'), 'kept');
    assert.match(await attempt('Deno.resolveDns("localhost", "A").catch(() => "asked")'), /^got/);
  });

  test('a sandboxed process sees no files of the platform or of neighbours, whatever their modes', async () => {
    const visible = [installedDeno(), own, realpathSync('/etc/resolv.conf')].filter(
      (each) => !each.startsWith('/etc/'),
    );
    const isOnTheWay = (place: string) => visible.some((each) => each.startsWith(`${place}/`));
    for (const place of [secret, neighbours, process.execPath, '/var', '/var/lib', '/root', '/home', '/run'])
      if (!place.startsWith('/usr/') && !isOnTheWay(place))
        assert.is(await attempt(`Deno.lstat(${JSON.stringify(place)})`), 'NotFound', place);
    // A folder above a visible path shows only the next folder on the way there.
    for (const place of ancestors(visible)) {
      const names = `Array.fromAsync(Deno.readDir(${JSON.stringify(place)}), ({ name }) => name)`;
      const below = visible.filter((each) => each.startsWith(`${place}/`)).map((each) => path.relative(place, each));
      const expected = [...new Set(below.map((each) => each.split(path.sep)[0]))].sort();
      const seen = await attempt(`${names}.then((names) => JSON.stringify(names.sort()))`);
      assert.is(seen, `got ${JSON.stringify(expected)}`, place);
    }
    assert.is(await attempt(`Deno.writeTextFile(${JSON.stringify(secret)}, "changed")`), 'NotFound');
    assert.is(readFileSync(secret, 'utf8'), SECRET);
  });

  /** Returns the folders above each path, without the root, `/usr`, and folders that are visible as a whole. */
  function ancestors(paths: string[]): string[] {
    const above = (place: string): string[] => (place === '/' ? [] : [place, ...above(path.dirname(place))]);
    const folders = new Set(paths.flatMap((each) => above(path.dirname(each))));
    return [...folders].filter((folder) => folder !== own && !folder.startsWith('/usr'));
  }

  test('a function can’t change the files that it may read', async () => {
    for (const place of [own, '/usr', '/etc', '/proc'])
      assert.match(await attempt(`Deno.writeTextFile(${JSON.stringify(path.join(place, 'made'))}, "x")`), /^[A-Z]/);
    assert.not(existsSync(path.join(own, 'made')));
  });

  test('a sandboxed process reads no data of other processes from /proc', async () => {
    for (const pid of [neighbour.pid, process.pid, process.ppid])
      for (const file of ['environ', 'root', 'root/etc/hostname', 'cwd', 'mem', 'fd', 'ns/mnt'])
        for (const read of ['readTextFile', 'readLink']) {
          const result = await attempt(`Deno.${read}("/proc/${pid}/${file}")`);
          assert.match(result, /^[A-Z]/, `${read} ${file}: ${result}`);
        }
  });

  test('a sandboxed process gains no rights, and enters no other namespace', async () => {
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

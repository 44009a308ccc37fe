/** Tests the runner's check that a test file leaves nothing behind, with real files and processes. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const { abandonAll, TestPlace } = await import(new URL('../../../scripts/test/leftovers.mjs', import.meta.url).href);

const { withDescendants } = await import(new URL('../../../scripts/test/processes.mjs', import.meta.url).href);

const ENDING_MS = 200;
let shared: string;

test.before(() => {
  shared = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
});

test.after(() => {
  rmSync(shared, { recursive: true, force: true });
});

/** Runs `script` like a test file, and returns the leftovers that the check finds. */
async function leftBy(script: string, env: NodeJS.ProcessEnv = {}, endingMs = ENDING_MS) {
  const place = new TestPlace(shared, { endingMs });
  const child = spawn('sh', ['-c', script], {
    env: { PATH: process.env.PATH, TMPDIR: place.tmp, DATA: place.data, ...env },
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  place.track(child.pid);
  child.stdin?.end();
  await once(child, 'exit');
  return { found: (await place.clear()) as string[], tmp: place.tmp as string };
}

test('an orphaned process is no descendant of a process that reuses its parent’s id', () => {
  const test = { pid: 20, parent: 1, parentStarted: '0', started: '900' };
  const child = { pid: 30, parent: 20, parentStarted: '900', started: '901' };
  // Another process with the id 20 started it, for example the first process of a container, which has ended.
  const orphan = { pid: 10, parent: 20, parentStarted: '100', started: '101' };
  const ofOrphan = { pid: 11, parent: 10, parentStarted: '101', started: '102' };
  assert.equal(withDescendants([orphan, ofOrphan, test, child], [test]), [test, child]);
});

test('a test file without leftovers passes, and its folder is removed', async () => {
  const { found, tmp } = await leftBy('echo x > "$TMPDIR/a" && rm "$TMPDIR/a"');
  assert.equal(found, []);
  assert.not.ok(existsSync(tmp));
});

test('a folder that a test file leaves behind is reported and removed', async () => {
  const { found, tmp } = await leftBy('mkdir -p "$TMPDIR/a/b" "$DATA/c"');
  assert.equal(
    found.map((line) => path.basename(line)),
    ['a', 'c'],
  );
  assert.not.ok(existsSync(tmp));
});

test('the folder of a test file can be entered by other accounts and has a short path', () => {
  const place = new TestPlace(shared);
  assert.is(statSync(place.tmp).mode & 0o777, 0o711);
  assert.ok(place.tmp.length <= 24, place.tmp);
  place.abandon();
});

if (process.platform !== 'linux') console.log('# skipped: processes are looked for by /proc of Linux');
else {
  const orphans: Record<string, string> = {
    'that has the environment of the file': 'setsid sleep 600 &',
    'that names the folder in its arguments': 'setsid env -i /usr/bin/tail -f "$TMPDIR/log" &',
    'that works in the folder': '(cd "$TMPDIR" && exec setsid env -i /bin/sleep 600) &',
  };
  if (process.getuid?.() === 0)
    orphans['of another account'] = 'setsid setpriv --reuid 65534 --regid 65534 --clear-groups /bin/sleep 600 &';

  for (const [what, script] of Object.entries(orphans)) {
    test(`a left-behind process ${what} is reported and ended`, async () => {
      const { found } = await leftBy(`touch "$TMPDIR/log"; ${script}`);
      expectEnded(found);
    });
  }

  test('a left-over process without any mark of its test file is reported and ended', async () => {
    const place = new TestPlace(shared, { endingMs: ENDING_MS });
    const child = spawn('sh', ['-c', 'env -i setsid /bin/sleep 600 & read -r _'], { cwd: '/', env: { PATH: '/bin' } });
    const tracker = place.track(child.pid);
    while (tracker.size < 2) await new Promise((resolve) => setTimeout(resolve, 10));
    child.stdin.end();
    await once(child, 'exit');
    expectEnded(await place.clear());
  });

  test('a runner that gets SIGTERM ends the processes of running files and removes their folders', async () => {
    const place = new TestPlace(shared);
    const child = spawn('sh', ['-c', 'setsid env -i /bin/sleep 600 & echo $! && mkdir "$TMPDIR/a" && read -r _'], {
      env: { PATH: process.env.PATH, TMPDIR: place.tmp },
    });
    place.track(child.pid);
    const [pid] = await once(child.stdout, 'data');
    while (!existsSync(path.join(place.tmp, 'a'))) await new Promise((resolve) => setTimeout(resolve, 10));
    const ended = once(child, 'exit');
    abandonAll();
    await ended;
    while (isRunning(Number(pid))) await new Promise((resolve) => setTimeout(resolve, 10));
    assert.not.ok(existsSync(place.tmp));
  });

  test('a process that ends by itself a moment later is no leftover', async () => {
    const { found } = await leftBy('setsid sleep 0.2 &', {}, 60_000);
    assert.equal(found, []);
  });

  test('a process that several test files use in turn is no leftover', async () => {
    const pidFile = path.join(shared, 'pid');
    const { found } = await leftBy(`setsid sleep 600 & echo $! > '${pidFile}'`, { SLIPWAY_OUTLIVES_TEST: '1' });
    assert.equal(found, []);
    const pid = Number(readFileSync(pidFile, 'utf8'));
    assert.ok(isRunning(pid));
    process.kill(pid, 'SIGKILL');
  });
}

if (process.platform === 'linux' && process.getuid?.() === 0) {
  test('a mount that a test file leaves behind is reported and removed', async () => {
    const { found, tmp } = await leftBy('mkdir "$TMPDIR/m" && mount -t tmpfs none "$TMPDIR/m"');
    assert.ok(found.includes(`mount ${tmp}/m`), JSON.stringify(found));
    assert.not.ok(readFileSync('/proc/self/mountinfo', 'utf8').includes(tmp));
  });
}

function expectEnded(found: string[]): void {
  const [, pid] = /^process (\d+): .*(sleep|tail)/.exec(found[0] ?? '') ?? [];
  assert.ok(pid, JSON.stringify(found));
  assert.not.ok(isRunning(Number(pid)));
}

/** False for a zombie. */
function isRunning(pid: number): boolean {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

test.run();

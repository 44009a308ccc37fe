/**
 * Tests control groups with the kernel's own hierarchy where this process may change it, and the files of version 2 in
 * a plain folder, because a machine has one version.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ControlGroup } from './control-group.js';

const MIB = 2 ** 20;
const LIMITS = { memoryBytes: 128 * MIB, processes: 40 };

async function run(group: ControlGroup, command: string[]): Promise<{ code: number | null; output: string }> {
  const [program, ...args] = group.running(command) as [string, ...string[]];
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code: child.exitCode, output: output + errors };
}

const isAvailable = ControlGroup.make(LIMITS);
await isAvailable?.remove();
if (!isAvailable) console.log('# skipped: this process can not make control groups');
const groupTest = isAvailable ? test : test.skip;

groupTest('a command in a group runs with its arguments, and the group is removed after it', async () => {
  const group = ControlGroup.make(LIMITS) as ControlGroup;
  const { code, output } = await run(group, ['sh', '-c', 'cat /proc/self/cgroup; echo "$1"; exit 3', 'sh', 'a  b']);
  assert.is(code, 3);
  assert.match(output, /a {2}b/);
  const [, name] = /\/(slipway-builds\/\d+-\d+)$/m.exec(output) ?? [];
  assert.ok(name);
  const folders = ['.', 'memory', 'pids'].map((each) => path.join('/sys/fs/cgroup', each, name));
  assert.ok(folders.some(existsSync));
  assert.is(group.isExceeded, false);
  await group.remove();
  assert.not.ok(folders.some(existsSync));
});

groupTest('the kernel ends a command whose processes together take more memory than the group has', async () => {
  const group = ControlGroup.make(LIMITS) as ControlGroup;
  const fill = `globalThis.kept = []; setInterval(() => kept.push(Buffer.alloc(${8 * MIB}, 1)), 1)`;
  const { code } = await run(group, [
    'sh',
    '-c',
    `${process.execPath} -e '${fill}' & ${process.execPath} -e '${fill}'`,
  ]);
  assert.is.not(code, 0);
  assert.is(group.isExceeded, true);
  await group.remove();
});

groupTest('a command in a group can not start more processes than the group has', async () => {
  const group = ControlGroup.make(LIMITS) as ControlGroup;
  const { output } = await run(group, ['sh', '-c', 'for i in $(seq 60); do sleep 1 & done; wait']);
  assert.match(output, /fork|Resource temporarily unavailable/i);
  await group.remove();
});

test('a group of version 2 limits memory, swap and processes, and ends all processes together', () => {
  const top = mkdtempSync(path.join(tmpdir(), 'control-group-'));
  try {
    assert.is(ControlGroup.in(top, LIMITS), undefined, 'there is no hierarchy');
    writeFileSync(path.join(top, 'cgroup.controllers'), 'cpu pids\n');
    assert.is(ControlGroup.in(top, LIMITS), undefined, 'the memory can not be limited');
    writeFileSync(path.join(top, 'cgroup.controllers'), 'cpu memory pids\n');
    const group = ControlGroup.in(top, LIMITS);
    const [, , , , folder = ''] = group?.running([]) ?? [];
    const read = (file: string) => readFileSync(path.join(folder, file), 'utf8');
    assert.equal(
      [read('memory.max'), read('memory.oom.group'), read('pids.max')],
      [`${LIMITS.memoryBytes}`, '1', `${LIMITS.processes}`],
    );
    assert.is(readFileSync(path.join(top, 'cgroup.subtree_control'), 'utf8'), '+memory +pids');
    writeFileSync(path.join(folder, 'memory.events'), 'max 12\noom 1\noom_kill 0\n');
    assert.is(group?.isExceeded, false);
    writeFileSync(path.join(folder, 'memory.events'), 'max 12\noom 1\noom_kill 2\noom_group_kill 1\n');
    assert.is(group?.isExceeded, true);
  } finally {
    rmSync(top, { recursive: true, force: true });
  }
});

test.run();

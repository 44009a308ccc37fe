/**
 * Tests the space, the network, the group and the engine of a project's containers with podman, as root: an image is
 * built from a Dockerfile, serves, and reaches nothing of this machine and of its neighbours.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:net';
import path from 'node:path';
import type { EngineForm } from '@slipway/installation';
import { addressesOf as addressesIn, NOT_PUBLIC } from '@slipway/program';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { addressesOf, closeNetwork, openNetwork } from './container-network.js';
import { closeGroup, inGroup, openGroup } from './delegated-group.js';
import { DnsForwarder } from './dns-forwarder.js';
import { startResolver } from './dns-resolver.testing.js';
import { findEngine } from './find-engine.js';
import { copyPrograms } from './machine-programs.js';
import { Podman } from './podman.js';
import { preparePodman } from './podman-settings.js';
import { type ImageOrder, ProjectContainers, type ProjectPlace } from './project-containers.js';
import { bytesOfDisk, closeDisk, openDisk } from './project-disk.js';
import { firstIdOf } from './project-numbers.js';
import { IDS, ProjectSpace } from './project-space.js';
import { CommandFailed } from './system-command.js';

const MIB = 2 ** 20;
const PORT = 8080;

/** A program that responds with its variables, its rights, or the result of a connection to `?to=address:port`. */
const APP = `
const { createServer } = require('node:http');
const { connect } = require('node:net');
const { lookup } = require('node:dns');
const { execFile } = require('node:child_process');
const { readFileSync } = require('node:fs');
createServer((request, response) => {
  const query = new URL(request.url, 'http://app').searchParams;
  if (query.has('perl')) {
    return execFile('/usr/bin/perl', ['-e', query.get('perl')], (_, output) => response.end(output));
  }
  if (query.has('name')) {
    return lookup(query.get('name'), 4, (error, address) => response.end(error?.code ?? address));
  }
  const to = query.get('to');
  if (to === null) {
    const status = readFileSync('/proc/self/status', 'utf8');
    return response.end(JSON.stringify({ word: process.env.WORD, lines: process.env.LINES_SET, status }));
  }
  const [host, port] = to.split(' ');
  const socket = connect({ host, port: Number(port), timeout: 2000 });
  socket.on('connect', () => response.end('connected'));
  socket.on('timeout', () => response.end('timeout'));
  socket.on('error', ({ code }) => response.end(code));
}).listen(process.env.PORT);
process.on('SIGTERM', () => process.exit(0));
console.log('listens');
`;

interface Project {
  ref: string;
  firstId: number;
  pair: number;
}

const ANN: Project = { ref: 'ann', firstId: 0x7000_0000, pair: 60_001 };
const BOB: Project = { ref: 'bob', firstId: 0x7001_0000, pair: 60_002 };
/** A short path, as podman requires. */
const top = mkdtempSync('/run/slipway-test-');
const disk = mkdtempSync('/var/tmp/slipway-test-');
for (const folder of [top, disk]) chmodSync(folder, 0o711);
const spaces = new Map<Project, ProjectSpace>();
let image = '';

const found = await findEngine({
  folder: path.join(disk, 'trial'),
  volatile: path.join(top, 'trial'),
});
if ('lacking' in found) console.log(`# skipped: ${found.lacking}`);
else console.log(`# ${found.form.runtime}, ${found.form.driver}`);
const form: EngineForm | undefined = 'form' in found ? found.form : undefined;
const containers = suite('containers');
const test = form ? containers : containers.skip;

const folderOf = ({ ref }: Project, ...names: string[]) => path.join(top, ref, ...names);
const DISK_BYTES = 1024 * MIB;
const diskOf = ({ ref }: Project) => ({
  file: path.join(disk, `${ref}.disk`),
  folder: path.join(disk, ref),
});
const placeOf = (project: Project) => ({
  store: path.join(diskOf(project).folder, 'store'),
  volatile: folderOf(project, 'engine'),
  settings: folderOf(project, 'containers.conf'),
  seccomp: folderOf(project, 'seccomp.json'),
});
const groupOf = ({ ref }: Project) => `test-${process.pid}-${ref}`;
/** A new group, which is closed after the tests. */
async function buildGroupOf(project: Project, limits = { memoryBytes: 512 * MIB, processes: 256 }) {
  const name = `${groupOf(project)}-build`;
  await closeGroup(name);
  const all = await openGroup(name, project.firstId, limits);
  return { name, steps: path.join(all, 'steps'), entering: (command: readonly string[]) => inGroup(name, command) };
}
/** True if this machine has control groups of version 2. */
const isSecond = existsSync('/sys/fs/cgroup/cgroup.controllers');
const limitFileOf = (name: string, controller: string, file: string) =>
  path.join('/sys/fs/cgroup', isSecond ? '' : controller, 'slipway-apps', name, file);
const networkOf = ({ ref, pair }: Project) => ({
  name: `slipway-test-${process.pid}-${ref}`,
  pair,
  closed: NOT_PUBLIC,
});

async function podmanOf(project: Project): Promise<Podman> {
  const place = placeOf(project);
  await openDisk(diskOf(project), DISK_BYTES);
  const space = await ProjectSpace.open({ folder: folderOf(project), firstId: project.firstId });
  spaces.set(project, space);
  await preparePodman(place, project.firstId);
  return new Podman(space, place, form as EngineForm);
}

const PROGRAMS = ['/bin/sh', '/bin/cat', '/usr/bin/id', '/bin/ls', '/usr/bin/perl', process.execPath];

/** Returns a folder of the project with this Dockerfile, programs of this machine, and the app. */
async function contextOf(
  project: Project,
  dockerfile: string,
  programs = PROGRAMS,
): Promise<{ context: string; dockerfile: string }> {
  const context = path.join(disk, `${project.ref}-context`);
  rmSync(context, { recursive: true, force: true });
  mkdirSync(context, { recursive: true });
  await copyPrograms(context, programs);
  writeFileSync(path.join(context, 'app.js'), APP);
  const file = path.join(context, 'Dockerfile');
  writeFileSync(file, dockerfile);
  spawnSync('chown', ['-R', `${project.firstId}:${project.firstId}`, context]);
  return { context, dockerfile: file };
}

async function build(project: Project, dockerfile: string): Promise<{ id: string; output: string }> {
  const podman = await podmanOf(project);
  let output = '';
  const group = await buildGroupOf(project);
  const order = { ...(await contextOf(project, dockerfile)), egress: [], proxyUrl: undefined, secrets: {}, group };
  const id = await podman.build(order, (bytes) => {
    output += bytes;
  });
  return { id, output };
}

async function run(project: Project, id: string): Promise<string> {
  const podman = await podmanOf(project);
  const network = await openNetwork(spaces.get(project) as ProjectSpace, networkOf(project));
  const group = await openGroup(groupOf(project), project.firstId, { memoryBytes: 600 * MIB, processes: 400 });
  const variables = folderOf(project, 'variables');
  writeFileSync(variables, `PORT=${PORT}\nWORD=a "quoted" $word\n`, { mode: 0o600 });
  chownSync(variables, project.firstId, project.firstId);
  const log = { file: folderOf(project, 'engine', 'app.log'), bytes: MIB };
  const limits = { memoryBytes: 512 * MIB, processors: 0.5, processes: 200 };
  const resolving = folderOf(project, 'resolv.conf');
  writeFileSync(resolving, `nameserver ${addressesOf(project.pair).machine}\n`, { mode: 0o644 });
  const files = { '/etc/resolv.conf': resolving };
  const made = { name: 'app', hostname: 'app', image: id, network, files, variables, secrets: {}, group };
  await podman.create({ ...made, ...limits, log });
  await podman.prepare('app', (command) => inGroup(groupOf(project), command));
  await podman.start('app');
  const url = `http://${addressesOf(project.pair).container}:${PORT}/`;
  await until(async () => (await fetch(url).catch(() => undefined))?.ok, 'the app serves');
  return url;
}

async function end(project: Project): Promise<void> {
  const podman = await podmanOf(project);
  for (const name of await podman.containers()) await podman.remove(name);
  await closeNetwork(spaces.get(project) as ProjectSpace, networkOf(project));
  await closeGroup(groupOf(project));
  await closeGroup(`${groupOf(project)}-build`);
}

/** Returns the ids of the processes that the project's ids own. */
const processesOf = ({ firstId }: Project): string[] =>
  spawnSync('ps', ['-e', '-o', 'uid=,pid='], { encoding: 'utf8' })
    .stdout.split('\n')
    .map((line) => line.trim().split(/\s+/))
    .flatMap(([uid, pid]) => (Number(uid) >= firstId && Number(uid) < firstId + IDS && pid ? [pid] : []));

/** A server that counts its connections. */
async function listening(host: string): Promise<{ server: Server; port: number; connections: () => number }> {
  let count = 0;
  const server = createServer((socket) => {
    count += 1;
    socket.destroy();
  });
  server.listen(0, host);
  await once(server, 'listening');
  return { server, port: (server.address() as { port: number }).port, connections: () => count };
}

containers.after(async () => {
  for (const [project, space] of spaces) {
    await end(project);
    await space.close();
    await closeDisk(diskOf(project));
  }
  for (const folder of [top, disk]) rmSync(folder, { recursive: true, force: true });
});

test('a machine without podman, and an account other than root, get the reason', async () => {
  const place = { folder: path.join(disk, 'none'), volatile: path.join(top, 'none') };
  const without = await findEngine(place, async (names) => names.filter((name) => name === 'podman' || name === 'nft'));
  assert.equal(without, { lacking: 'it has no container engine: install podman, nftables' });
});

test('a disk holds its size at most, grows, and keeps its content', async () => {
  const own = { file: path.join(disk, 'own.disk'), folder: path.join(disk, 'own') };
  const [full, kept] = ['full', 'kept'].map((name) => path.join(own.folder, name)) as [string, string];
  const fill = () => spawnSync('dd', ['if=/dev/zero', `of=${full}`, 'bs=1M', 'count=100'], { encoding: 'utf8' });
  try {
    await openDisk(own, 64 * MIB);
    assert.ok((await bytesOfDisk(own)) < 16 * MIB, 'an empty disk is sparse');
    writeFileSync(kept, 'kept');
    assert.match(fill().stderr, /No space left on device/);
    await closeDisk(own);
    // A process that is killed while the disk grows leaves this.
    writeFileSync(`${own.file}.growing`, '');
    spawnSync('truncate', [`--size=${256 * MIB}`, own.file]);
    await openDisk(own, 256 * MIB);
    assert.is(fill().status, 0);
    await closeDisk(own);
    await openDisk(own, 64 * MIB);
    assert.is(readFileSync(kept, 'utf8'), 'kept');
    rmSync(full);
    await closeDisk(own);
    await openDisk(own, 64 * MIB);
    assert.ok((await bytesOfDisk(own)) < 32 * MIB, 'it gives back the space of deleted files');
  } finally {
    await closeDisk(own);
  }
});

test('the images of a project are on its disk, and stay when its containers are closed', async () => {
  const place = {
    ref: 'own',
    number: 30_001,
    folder: path.join(disk, 'own-place'),
    volatile: path.join(top, 'own-place'),
    diskBytes: 128 * MIB,
    form: form as EngineForm,
    closed: NOT_PUBLIC,
    linked: [],
    keepOutput: async () => {},
  };
  const kept = path.join(place.volatile, 'disk', 'store', 'kept');
  const containers = await ProjectContainers.open(place);
  try {
    const { blocks, bsize } = statfsSync(path.dirname(kept));
    assert.ok(blocks * bsize <= place.diskBytes, `${blocks * bsize} bytes`);
    writeFileSync(kept, 'kept');
    await containers.close();
    assert.not.ok(existsSync(place.volatile));
    await ProjectContainers.open(place);
    assert.is(readFileSync(kept, 'utf8'), 'kept');
  } finally {
    await containers.close();
  }
});

test('a Dockerfile is built by ids of the project alone, without a network', async () => {
  const built = await build(
    ANN,
    `FROM scratch
COPY . /
RUN id -u && cat /proc/self/uid_map && ls /sys/class/net
CMD ["${process.execPath}", "/app.js"]`,
  );
  image = built.id;
  assert.match(built.output, new RegExp(`^\\s*0\\s+${ANN.firstId}\\s+65536$`, 'm'));
  assert.match(built.output, /^lo$/m);
  assert.not.match(built.output, /^(eth|veth|slipway)/m);
});

test('a step that fails ends the build with its exit code and its output', async () => {
  const failed = await build(ANN, 'FROM scratch\nCOPY . /\nRUN cat /nothing').catch((error: unknown) => error);
  assert.instance(failed, CommandFailed);
  assert.match((failed as CommandFailed).complaint, /exit status 1/);
});

test('a build that is cancelled leaves no process', async () => {
  const podman = await podmanOf(ANN);
  const cancel = new AbortController();
  const endless = await contextOf(ANN, 'FROM scratch\nCOPY . /\nRUN echo begun && while :; do :; done');
  const building = podman.build(
    { ...endless, egress: [], proxyUrl: undefined, secrets: {}, group: await buildGroupOf(ANN) },
    (bytes) => {
      if (/^begun$/m.test(`${bytes}`)) cancel.abort(new Error('cancelled'));
    },
    cancel.signal,
  );
  assert.is(await building.catch((error: Error) => error.message), 'cancelled');
  await until(() => processesOf(ANN).length === 0, 'its processes have ended');
});

const SECRETS = { WORD: 'a-secret-word', LINES: 'a-secret-line\nanother "line"\n', 'NO,src=/etc/hostname': 'refused' };
const BUILD_LIMITS = { memoryBytes: 512 * MIB, processes: 256 };
const AT_SECRETS = '--mount=type=secret,id=WORD,required=true --mount=type=secret,id=LINES,target=/etc/lines';

/** A project whose steps mount the secrets, and then run `step`. */
async function projectWithSecrets(number: number, step: string): Promise<{ place: ProjectPlace; order: ImageOrder }> {
  const ref = `secrets-${number}`;
  const folders = { folder: path.join(disk, ref), volatile: path.join(top, `s${number}`) };
  const engine = { form: form as EngineForm, closed: NOT_PUBLIC, linked: [], keepOutput: async () => {} };
  const place = { ref, number, ...folders, diskBytes: 128 * MIB, ...engine };
  const dockerfile = `FROM scratch\nCOPY . /\nRUN ${AT_SECRETS} ${step}`;
  const programs = ['/bin/sh', '/bin/cat', '/bin/ls'];
  const context = await contextOf({ ref, firstId: firstIdOf(number), pair: 0 }, dockerfile, programs);
  return { place, order: { ...context, egress: [], proxyUrl: undefined, secrets: SECRETS } };
}

/** Returns the files of the project that have a part of a secret. */
const filesWithSecrets = ({ volatile, folder }: ProjectPlace): string =>
  spawnSync('grep', ['-rlEs', '--exclude=disk', 'a-secret-|another "line"', volatile, folder], { encoding: 'utf8' })
    .stdout;

test('a step reads secrets, which neither the image nor a process nor a file has afterwards', async () => {
  const print = 'cat /run/secrets/WORD /etc/lines && ls /run/secrets && cat /proc/self/environ';
  const { place, order } = await projectWithSecrets(30_002, print);
  const containers = await ProjectContainers.open(place);
  let output = '';
  let processes = '';
  try {
    await containers.build(order, BUILD_LIMITS, (bytes) => {
      if (/STEP 3/.test(`${bytes}`)) processes += spawnSync('ps', ['axeww'], { encoding: 'utf8' }).stdout;
      output += bytes;
    });
    assert.match(output, /^a-secret-worda-secret-line\nanother "line"\nWORD\n/m);
    assert.match(processes, /--secret=id=WORD,src=/);
    assert.not.match(processes, /a-secret-|another "line"|NO,src/);
    assert.is(output.split('a-secret-word').length, 2, output);
    assert.is(filesWithSecrets(place), '');
    const last = await containers.build(
      { ...order, secrets: { ...SECRETS, WORD: 'a-secret-change' } },
      BUILD_LIMITS,
      () => undefined,
    );
    assert.match(last, /^[\da-f]{64}$/);
  } finally {
    await containers.close();
  }
});

test('a build whose process is killed leaves no secret, no container and no process', async () => {
  const { place, order } = await projectWithSecrets(30_003, 'echo begun && while :; do :; done');
  const module = new URL('project-containers.js', import.meta.url).href;
  const script = `import { ProjectContainers } from ${JSON.stringify(module)};
    const containers = await ProjectContainers.open({ ...${JSON.stringify(place)}, keepOutput: async () => {} });
    const print = (bytes) => process.stdout.write(bytes);
    await containers.build(${JSON.stringify(order)}, ${JSON.stringify(BUILD_LIMITS)}, print);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (bytes: Buffer) => {
    output += bytes;
    if (/^begun$/m.test(output)) child.kill('SIGKILL');
  });
  await once(child, 'close');
  const left = filesWithSecrets(place);
  const containers = await ProjectContainers.open(place);
  try {
    assert.match(output, /^begun$/m);
    assert.match(left, /-containers/, 'podman has copied a secret');
    assert.is(filesWithSecrets(place), '');
    assert.equal(processesOf({ ref: place.ref, firstId: firstIdOf(place.number), pair: 0 }), []);
    assert.not.ok(existsSync(path.join(place.folder, 'building')));
  } finally {
    await containers.close();
  }
});

/** Programs of Node.js that take all memory, and start processes without end. */
const BOMBS = {
  memory: 'const all = []; for (;;) all.push(Buffer.alloc(2 ** 24, 1));',
  processes: `const { spawn } = require('node:child_process');
const next = () => spawn('/bin/sh', ['-c', 'while :; do :; done']).on('error', ({ code }) => {
  console.log(code);
  process.exit(7);
}).on('spawn', next);
next();`,
};

test('a step that takes all memory or starts processes without end fails within the limits of its build', async () => {
  const podman = await podmanOf(ANN);
  const limits = { memoryBytes: 512 * MIB, processes: 100 };
  for (const [kind, bomb] of Object.entries(BOMBS)) {
    const group = await buildGroupOf(ANN, limits);
    const context = await contextOf(ANN, `FROM ${image}\nRUN ["${process.execPath}", "-e", ${JSON.stringify(bomb)}]`);
    const building = podman.build({ ...context, egress: [], proxyUrl: undefined, secrets: {}, group }, () => undefined);
    const failed = await building.catch((error: unknown) => error);
    assert.instance(failed, CommandFailed);
    const peak = limitFileOf(group.name, 'memory', isSecond ? 'memory.peak' : 'memory.max_usage_in_bytes');
    const memory = Number(readFileSync(peak, 'utf8'));
    // The kernel may count a few pages more for a moment.
    assert.ok(memory <= limits.memoryBytes + MIB, `${memory} bytes`);
    if (kind === 'memory') assert.ok(memory > 0.8 * limits.memoryBytes, `${memory} bytes`);
    // The bomb ends by itself only if no process more is started. Some kernels do not count the most.
    const most = limitFileOf(group.name, 'pids', 'pids.peak');
    if (kind !== 'memory' && existsSync(most)) assert.is(Number(readFileSync(most, 'utf8')), limits.processes);
    await closeGroup(group.name);
    assert.equal(processesOf(ANN), []);
  }
});

/**
 * Fills the buffers of as many TCP connections and UDP sockets as three processes get, without any module of perl.
 * Constants of the kernel: AF_INET 2, SOCK_STREAM 1, SOCK_DGRAM 2, F_SETFL 4, O_NONBLOCK 2048, MSG_DONTWAIT 64.
 */
const SOCKET_BOMB = `
sub address { return pack('S n a4 x8', 2, $_[0], pack('C4', 127, 0, 0, 1)); }
for my $child (1..3) {
  next if fork;
  my @open; my $word = 'x' x 60_000;
  socket(my $server, 2, 1, 0); bind($server, address(7000 + $child)); listen($server, 1024); fcntl($server, 4, 2048);
  for (1..300) {
    socket(my $client, 2, 1, 0) or last; fcntl($client, 4, 2048);
    connect($client, address(7000 + $child)); push @open, $client;
  }
  for (1..20) {
    while (accept(my $taken, $server)) { push @open, $taken; }
    select(undef, undef, undef, 0.05);
  }
  for my $count (1..300) {
    socket(my $receiver, 2, 2, 0) or last; bind($receiver, address(10_000 * $child + $count)); push @open, $receiver;
  }
  socket(my $sender, 2, 2, 0);
  for my $count (1..300) { send($sender, $word, 64, address(10_000 * $child + $count)) for (1..20); }
  for my $socket (@open) { 1 while send($socket, $word, 64); }
  select(undef, undef, undef, 2); exit;
}
1 while wait != -1;
print 'fil'.'led';`;

/** The bytes in the buffers of all sockets of this machine. */
const bytesInSockets = (): number => {
  const pages = [...readFileSync('/proc/net/sockstat', 'utf8').matchAll(/^(?:TCP|UDP):.* mem (\d+)$/gm)];
  return pages.reduce((sum, [, count]) => sum + Number(count), 0) * 4096;
};

test('a step that fills sockets gets a part of the memory of its build', async () => {
  const before = bytesInSockets();
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, bytesInSockets() - before);
  }, 50);
  const step = JSON.stringify(['/usr/bin/perl', '-e', SOCKET_BOMB]);
  const { output } = await build(ANN, `FROM ${image}\nRUN ${step}`).finally(() => clearInterval(watch));
  assert.match(output, /filled/);
  assert.ok(most > 16 * MIB, `${most} bytes`);
  assert.ok(most < 160 * MIB, `${most} bytes`);
});

test('closing a group kills processes that start others without end', async () => {
  const name = `${groupOf(ANN)}-forks`;
  await openGroup(name, ANN.firstId, { memoryBytes: 256 * MIB, processes: 100 });
  const script = 'f() { f & f & while :; do f & done; }; f';
  const [program, ...words] = await inGroup(name, ['sh', '-c', script]);
  const child = spawn(program, words, { stdio: 'ignore' });
  const current = limitFileOf(name, 'pids', 'pids.current');
  await until(() => Number(readFileSync(current, 'utf8')) === 100, 'the group is full');
  await closeGroup(name);
  assert.not.ok(existsSync(current));
  child.kill('SIGKILL');
});

test('a container serves with its variables, as an account of its project without rights', async () => {
  const url = await run(ANN, image);
  const { word, status } = (await (await fetch(url)).json()) as { word: string; status: string };
  assert.is(word, 'a "quoted" $word');
  assert.match(status, /^CapEff:\s+0+$/m);
  assert.match(status, /^CapBnd:\s+0+$/m);
  assert.match(status, /^NoNewPrivs:\s+1$/m);
  assert.match(status, /^Seccomp:\s+2$/m);
  const pid = readFileSync(folderOf(ANN, 'engine', 'app.pid'), 'utf8').trim();
  assert.match(readFileSync(`/proc/${pid}/status`, 'utf8'), new RegExp(`^Uid:\\s+${ANN.firstId}\\s`, 'm'));
  assert.match(readFileSync(`/proc/${pid}/cgroup`, 'utf8'), new RegExp(`/slipway-apps/${groupOf(ANN)}/containers/`));
  assert.match(readFileSync(folderOf(ANN, 'engine', 'app.log'), 'utf8'), / listens$/m);
});

test('a container reaches neither this machine nor a neighbour nor a private address, only itself', async () => {
  const url = await run(ANN, image);
  const { id } = await build(BOB, `FROM scratch\nCOPY . /\nCMD ["${process.execPath}", "/app.js"]`);
  await run(BOB, id);
  const { machine, container } = addressesOf(ANN.pair);
  const neighbour = addressesOf(BOB.pair);
  const { server, port, connections } = await listening('0.0.0.0');
  const result = async (to: string, at: number) =>
    (await fetch(`${url}?${new URLSearchParams({ to: `${to} ${at}` })}`)).text();
  try {
    for (const address of [machine, neighbour.machine, '127.0.0.1', '169.254.169.254', '10.0.0.1']) {
      assert.not.equal(await result(address, port), 'connected', address);
    }
    assert.not.equal(await result(neighbour.container, PORT), 'connected', 'a neighbour');
    assert.is(await result(container, PORT), 'connected', 'itself');
    assert.is(connections(), 0);
  } finally {
    server.close();
    await end(BOB);
  }
});

/** Prints the domains of which this program can make a socket, and `io_uring` if it can make such a ring. */
const SOCKETS = [
  'for ([1, 1, 0], [2, 1, 0], [2, 2, 0], [10, 1, 0], [16, 3, 0], [16, 3, 9], [16, 3, 12], [17, 3, 0], [38, 5, 0])',
  '{ print "$_->[0]/$_->[2] " if socket(S, $_->[0], $_->[1], $_->[2]) }',
  '$all = pack("x120"); print "io_uring " if syscall(425, 1, $all) >= 0 || $! != 38',
].join(' ');

test('a container and a step of a build make no socket of AF_ALG and other rare domains', async () => {
  const expected = '1/0 2/0 2/0 10/0 16/0';
  const open = spawnSync('/usr/bin/perl', ['-e', SOCKETS], { encoding: 'utf8' }).stdout.trim();
  assert.not.equal(open, expected, 'this machine makes others');
  const url = await run(ANN, image);
  assert.is((await (await fetch(`${url}?${new URLSearchParams({ perl: SOCKETS })}`)).text()).trim(), expected);
  const step = JSON.stringify(['/usr/bin/perl', '-e', SOCKETS]);
  const { output } = await build(ANN, `FROM ${image}\nRUN ${step}`);
  assert.is(
    /^\d+\/\d.*$/m
      .exec(output)?.[0]
      .replace(/COMMIT.*/, '')
      .trim(),
    expected,
    output,
  );
});

test('an image with a label or an annotation of podman is refused', async () => {
  const podman = await podmanOf(ANN);
  await podman.examine(image);
  const { id } = await build(ANN, 'FROM scratch\nCOPY app.js /\nLABEL io.podman.annotations.checkpoint.name=x');
  const refusal = await podman.examine(id).catch((error: Error) => error.message);
  assert.match(String(refusal), /has the label io\.podman\.annotations\.checkpoint\.name/);
});

test('a container resolves names by the forwarder, also after a restart of the platform', async () => {
  const url = await run(ANN, image);
  const resolver = await startResolver({ 'public.example.com': '11.0.0.5', 'rebound.example.com': '10.0.0.5' });
  const { machine } = addressesOf(ANN.pair);
  const resolve = async (name: string) => (await fetch(`${url}?name=${name}`)).text();
  for (let restart = 1; restart <= 2; restart += 1) {
    const log = pino({ level: 'silent' });
    const forwarder = new DnsForwarder({ reaches: addressesIn({}), resolvers: () => [resolver.address], log });
    forwarder.open(machine);
    try {
      assert.is(await resolve('public.example.com'), '11.0.0.5');
      assert.is(await resolve('rebound.example.com'), 'ENOTFOUND');
    } finally {
      forwarder.closeAll();
    }
  }
  resolver.close();
});

test('a container is found by another process of the platform, and stops at TERM', async () => {
  await run(ANN, image);
  const podman = await podmanOf(ANN);
  assert.equal(await podman.containers(), ['app']);
  const pid = readFileSync(folderOf(ANN, 'engine', 'app.pid'), 'utf8').trim();
  await podman.stop('app', 10);
  assert.throws(() => process.kill(Number(pid), 0));
  await podman.stop('app', 10);
  await podman.remove('app');
  await podman.remove('app');
  assert.equal(await podman.containers(), []);
});

containers.run();

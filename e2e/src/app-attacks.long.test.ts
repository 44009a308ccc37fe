/**
 * Attacks by an app that runs, and on it, on one machine: what it does to the machine, to the platform, to a neighbour
 * and to itself. During each attack, requests to the neighbour and to the API must all succeed.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { APP_LIMITS } from '@slipway/installation';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type AppStatus, createApp, deployed, enginesOf, NUMBERS, openApps, page, push, statusOf } from './apps.js';
import { HOSTILE_APP } from './hostile-app.js';
import type { ProjectView } from './management.js';
import { commandOf, processTree } from './processes.js';
import { requestSite } from './site-request.js';

const PROBE_PAUSE_MS = 250;
const PATIENCE_MS = 240_000;
/** Requests beyond the limit of an app. */
const SPARE = 200;
const MIB = 2 ** 20;
const SECRET = 'session=of-the-neighbour';
const LIMITS = APP_LIMITS.free;

const scene = await openApps('token-of-the-owner');
const { own, lacking, platform } = scene;
const { person } = own;
const attacks = suite('attacks by an app');
const test = lacking ? attacks.skip : attacks;

attacks.after(() => scene.close());

const hostileOf = (version: number) => HOSTILE_APP.replace('VERSION', String(version));

let hostile: ProjectView;
let honest: ProjectView;
let programs: string[];

/** Returns the programs of the platform, by their process ids. */
async function programsOfPlatform(): Promise<string[]> {
  const tree = await processTree(platform.pid);
  const all = await Promise.all(tree.map(async (pid) => `${pid} ${await commandOf(pid).catch(() => '')}`));
  return all.filter((line) => line.includes('/dist/main.js')).sort();
}

/** Requests the neighbour and the API while the work lasts, and expects that every response is right. */
async function unharmed<T>(work: () => Promise<T>): Promise<T> {
  const failures: string[] = [];
  let isDone = false;
  const probe = async (name: string, ask: () => Promise<string | undefined>) => {
    while (!isDone) {
      const failure = await ask().catch((error: Error) => error.message);
      if (failure !== undefined) failures.push(`${name}: ${failure}`);
      await sleep(PROBE_PAUSE_MS);
    }
  };
  const probes = [
    probe('neighbour', async () => {
      const { status, body } = await requestSite(honest.project_url, '/', { cookie: SECRET });
      return status === 200 && JSON.parse(body).headers.cookie === SECRET ? undefined : `${status} ${body}`;
    }),
    probe('API', async () => {
      const { status } = await person.call('GET', `/projects/${honest.id}`);
      return status === 200 ? undefined : `${status}`;
    }),
  ];
  try {
    return await work();
  } finally {
    isDone = true;
    await Promise.all(probes);
    assert.equal(failures, []);
  }
}

/** Has the hostile app carry out an attack, and returns its result. Undefined: the app ended. */
async function attack<T>(name: string, parameters: Record<string, string | number> = {}): Promise<T | undefined> {
  const query = new URLSearchParams(
    Object.entries(parameters).map(([key, value]): [string, string] => [key, `${value}`]),
  );
  const { status, body } = await requestSite(hostile.project_url, `/${name}?${query}`);
  if (status === 502) return undefined;
  assert.is(status, 200, body);
  return JSON.parse(body) as T;
}

/** Waits until the hostile app serves after its end, and returns its status. */
async function backAgain(restarts: number): Promise<NonNullable<AppStatus['services']['app']>> {
  const back = await until(
    async () => {
      const { app } = (await statusOf(person, hostile)).services;
      return app?.up && (app.restarts ?? 0) > restarts ? app : undefined;
    },
    'the app to start again',
    PATIENCE_MS,
  );
  await until(() => page(hostile), 'the app to serve again', PATIENCE_MS);
  return back;
}

const restartsNow = async () => (await statusOf(person, hostile)).services.app?.restarts ?? 0;

/** Returns the folder that the project has in /run. */
function volatileOf({ ref }: ProjectView): string {
  const folder = path.join(platform.home, 'apps', ref);
  const number = readdirSync(NUMBERS).find((name) => readlinkSync(path.join(NUMBERS, name)) === folder);
  return path.join('/run/slipway', number as string);
}

/** Returns the bytes of a folder, without those of file systems that are mounted in it. */
function bytesBelow(folder: string): number {
  const { stdout } = spawnSync('du', ['--one-file-system', '--summarize', '--bytes', folder], { encoding: 'utf8' });
  return Number.parseInt(stdout, 10);
}

test('a hostile app and its neighbour are deployed', async () => {
  hostile = await createApp(own, 'hostile', hostileOf(1), ['/usr/bin/fallocate']);
  honest = await createApp(own, 'honest');
  for (const project of [hostile, honest]) {
    const build = await deployed(own, project);
    assert.is(build.phase, 'Deployed', build.log);
    await until(() => page(project), 'the app serves', PATIENCE_MS);
  }
  programs = await programsOfPlatform();
});

test('an app that starts processes gets as many as its plan has', async () => {
  const result = await unharmed(() => attack<{ started: number; failure: string }>('processes'));
  assert.ok(result);
  assert.is(result.failure, 'EAGAIN');
  assert.ok(result.started <= LIMITS.processes, `${result.started} processes`);
});

test('a fork bomb ends with the process that began it, and the app starts again', async () => {
  const restarts = await restartsNow();
  await unharmed(async () => {
    await attack('bomb', { seconds: 5 });
    const { last_exit_code } = await backAgain(restarts);
    assert.is(last_exit_code, 9);
  });
});

test('an app that allocates memory without end is killed, starts again, and its status says so', async () => {
  const restarts = await restartsNow();
  await unharmed(async () => {
    assert.is(await attack('memory').catch(() => undefined), undefined);
    const { last_exit_code } = await backAgain(restarts);
    assert.is(last_exit_code, 137);
  });
});

test('an app that prints without end keeps only the last bytes of its output', async () => {
  const folder = path.join(volatileOf(hostile), 'disk', 'store');
  for (const line of [64, 8192, 0]) {
    await unharmed(() => attack('output', { line, mebibytes: 40 }));
    const logs = readdirSync(folder).filter((name) => name.includes(hostile.ref));
    const bytes = logs.map((name) => statSync(path.join(folder, name)).size).reduce((sum, size) => sum + size, 0);
    assert.ok(bytes > 0 && bytes < 2 * LIMITS.logBytes, `${bytes} bytes in ${logs}`);
  }
});

test('an app that writes to every place writes nothing to the disk of the machine', async () => {
  const { mounts } = (await attack<{ mounts: string }>('look')) ?? { mounts: '' };
  const places = mounts.split('\n').map((line) => line.split(' ')[4] ?? '');
  assert.ok(places.includes('/etc/hosts'));
  const before = bytesBelow(volatileOf(hostile));
  for (const place of places.filter(
    (each) => each !== '' && !/^\/(proc|sys|dev\/[a-z]*(null|zero|full|random))/.test(each),
  )) {
    for (const file of [place, `${place}/file`]) await unharmed(() => attack('fill', { file, mebibytes: 100 }));
  }
  const grown = bytesBelow(volatileOf(hostile)) - before;
  assert.ok(grown < MIB, `${grown} bytes in a folder of the machine`);
});

interface Sockets {
  tcp: number;
  udp: number;
}

/** Returns the bytes of memory that the sockets of all programs of this machine use. */
function socketBytes(): Sockets {
  const text = readFileSync('/proc/net/sockstat', 'utf8');
  const of = (name: string) => 4096 * Number(new RegExp(`^${name}: .* mem (\\d+)$`, 'm').exec(text)?.[1]);
  return { tcp: of('TCP'), udp: of('UDP') };
}

/** Returns the most bytes that the sockets of this machine used while the work lasted. */
async function mostSocketBytes(work: () => Promise<unknown>): Promise<Sockets> {
  let most = socketBytes();
  const look = setInterval(() => {
    const { tcp, udp } = socketBytes();
    most = { tcp: Math.max(most.tcp, tcp), udp: Math.max(most.udp, udp) };
  }, 50);
  try {
    await work();
  } finally {
    clearInterval(look);
  }
  return most;
}

test('an app that opens 10,000 listening sockets takes none of the machine', async () => {
  const counts = await unharmed(() => attack<string[]>('sockets', { of: 'listening', processes: 12 }));
  assert.is(counts?.length, 12);
  for (const each of counts ?? []) assert.match(each, /^\d+ EMFILE$/);
});

test('the sockets of an app use at most an eighth of its memory beside it', async () => {
  const limit = LIMITS.memoryBytes / 8;
  // Other programs of this machine have sockets too.
  const spare = 128 * MIB;
  const before = socketBytes();
  for (const of of ['connections', 'datagrams']) {
    const most = await mostSocketBytes(() => unharmed(() => attack('sockets', { of, processes: 3 })));
    const grown = most.tcp + most.udp - before.tcp - before.udp;
    assert.ok(grown < limit + spare, `${of}: ${grown} bytes`);
    assert.ok(grown > limit / 4, `the attack by ${of} uses only ${grown} bytes`);
  }
  await until(() => page(hostile), 'the app to serve', PATIENCE_MS);
});

/** Sends bytes to the gateway, and returns all that it sends until the connection is closed, or the text has come. */
function exchange(text: string, enough?: RegExp): Promise<string> {
  const { port } = new URL(hostile.project_url);
  return new Promise((resolve) => {
    let received = '';
    const socket = connect(Number(port), '127.0.0.1', () => socket.write(text, 'latin1'));
    socket.on('data', (bytes) => {
      received += bytes.toString('latin1');
      if (enough?.test(received)) socket.destroy();
    });
    socket.on('error', () => undefined).on('close', () => resolve(received));
  });
}

interface Seen {
  method?: string;
  url: string;
  headers?: Record<string, string>;
  rawHeaders?: string[];
  body?: string;
}

const seenByHostile = async () => (await attack<Seen[]>('seen')) ?? [];
const hostOf = ({ project_url }: ProjectView) => new URL(project_url).host;

test('no request that two servers could read differently reaches the app', async () => {
  const inner = `GET /stolen HTTP/1.1\r\nHost: ${hostOf(honest)}\r\n\r\n`;
  const head = `POST /first HTTP/1.1\r\nHost: ${hostOf(hostile)}\r\n`;
  const length = inner.length;
  await unharmed(async () => {
    for (const rest of [
      `Content-Length: ${length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${inner}`,
      `Transfer-Encoding: chunked\r\nContent-Length: ${length}\r\n\r\n0\r\n\r\n${inner}`,
      `Content-Length: 0\r\nContent-Length: ${length}\r\n\r\n${inner}`,
      `Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${inner}`,
      `Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n${inner}`,
      `Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${inner}`,
      `X-A: 1\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n${inner}`,
      `X-A: 1\nX-B: 2\r\n\r\n`,
      `X-A: \x00\r\n\r\n`,
      `Host: ${hostOf(honest)}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
    ]) {
      const received = await exchange(head + rest);
      assert.match(received, /^HTTP\/1\.1 400 /, JSON.stringify(rest));
      assert.is(received.match(/HTTP\/1\.1 /g)?.length, 1, JSON.stringify(rest));
    }
    const absolute = `GET http://${hostOf(honest)}/ HTTP/1.1\r\nHost: ${hostOf(hostile)}\r\nConnection: close\r\n\r\n`;
    assert.match(await exchange(absolute), /^HTTP\/1\.1 400 /);
  });
  const urls = (await seenByHostile()).map(({ url }) => url);
  assert.equal(
    urls.filter((url) => /stolen|first|not HTTP/.test(url)),
    [],
  );
});

test('a second request on a connection goes to the app that its own Host names', async () => {
  const first = `GET /mine HTTP/1.1\r\nHost: ${hostOf(hostile)}\r\n\r\n`;
  const second = `GET /theirs HTTP/1.1\r\nHost: ${hostOf(honest)}\r\nCookie: ${SECRET}\r\nConnection: close\r\n\r\n`;
  assert.match(await exchange(first + second), /"url":"\/theirs"/);
  const seen = await seenByHostile();
  assert.ok(seen.some(({ url }) => url === '/mine'));
  assert.not.ok(JSON.stringify(seen).includes('theirs'));
});

test('an app gets the headers of proxies from the platform alone', async () => {
  const forged = ['X-Forwarded-For', 'X_Forwarded_For', 'X-Forwarded-Host', 'X_Forwarded-Host', 'X-Forwarded-Proto']
    .concat(['X_FORWARDED_PROTO', 'Forwarded', 'X-Real-IP', 'X_Real_IP'])
    .map((name) => `${name}: forged.example\r\n`);
  await exchange(`GET /forged HTTP/1.1\r\nHost: ${hostOf(hostile)}\r\n${forged.join('')}Connection: close\r\n\r\n`);
  const seen = (await seenByHostile()).find(({ url }) => url === '/forged');
  assert.is(seen?.headers?.['x-forwarded-for'], '127.0.0.1');
  assert.not.ok(JSON.stringify(seen).includes('forged.example'));
});

test('no response of an app becomes the response to another request', async () => {
  const requestOf = (target: string, project = hostile) => `GET ${target} HTTP/1.1\r\nHost: ${hostOf(project)}\r\n\r\n`;
  const last = `GET /after HTTP/1.1\r\nHost: ${hostOf(honest)}\r\nConnection: close\r\n\r\n`;
  await unharmed(async () => {
    for (const kind of ['split', 'longer', 'hop', 'switching', 'twice', 'folded']) {
      const received = await exchange(requestOf(`/raw/${kind}`) + last);
      assert.not.match(received, /poison|and more than that|x-private|upgrade: h2c/i, kind);
      if (/switching|twice|folded/.test(kind)) assert.match(received, /^HTTP\/1\.1 502 /, kind);
      else if (kind !== 'longer') assert.match(received, /^HTTP\/1\.1 200 /, kind);
      // Bytes after the end of a response may end the connection of its visitor.
      if (kind !== 'longer') assert.match(received, /"url":"\/after"/, kind);
    }
    assert.match(await exchange(requestOf('/endless'), /502/), /^HTTP\/1\.1 502 /);
  });
});

/**
 * Opens connections that stay open, more slowly than the limit on requests, and returns how many were refused: by the
 * platform, or by an app that can open no further socket.
 */
async function refusedOf(text: string, count: number): Promise<number> {
  const { port } = new URL(hostile.project_url);
  let answered = 0;
  let refused = 0;
  const sockets: Socket[] = [];
  while (sockets.length < count) {
    const socket = connect(Number(port), '127.0.0.1', () => socket.write(text));
    socket.once('data', (bytes) => {
      answered += 1;
      if (/^HTTP\/1\.1 50[234] /.test(bytes.toString())) refused += 1;
    });
    socket.on('error', () => undefined);
    sockets.push(socket);
    if (sockets.length % 50 === 0) await sleep(100);
  }
  await until(() => refused >= SPARE || answered === count, 'the rest to be refused', PATIENCE_MS);
  for (const socket of sockets) socket.destroy();
  return refused;
}

test('requests and WebSockets without end use up only the places of the app', async () => {
  const head = `/held HTTP/1.1\r\nHost: ${hostOf(hostile)}\r\n`;
  const handshake = `GET ${head}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
  const unfinished = `POST ${head}Content-Length: 10\r\n\r\n`;
  await unharmed(async () => {
    for (const [text, most] of [
      [handshake, 1024],
      [unfinished, 512],
    ] as const) {
      const refused = await refusedOf(text, most + SPARE);
      assert.ok(refused >= SPARE, `${refused} of ${most + SPARE} refused`);
      await until(() => page(hostile), 'the app to serve', PATIENCE_MS);
    }
  });
});

test('an app sees nothing of the machine, and reaches neither the platform nor its neighbour', async () => {
  const addresses = Object.values(networkInterfaces()).flatMap((all = []) => all);
  const machine = addresses.filter(({ family }) => family === 'IPv4').map(({ address }) => address);
  const ports = [platform.port, platform.port + 1, platform.port + 2, 22];
  const neighbours = machine
    .filter((address) => address.startsWith('198.18.'))
    .map((address) => address.replace(/\d+$/, (last) => String(Number(last) + 1)));
  const reached = [
    ...machine.flatMap((address) => ports.map((port) => `${address}:${port}`)),
    ...['169.254.169.254:80', '10.0.0.1:80', '192.168.0.1:80', '172.16.0.1:80', '100.64.0.1:80'],
  ];
  type Look = {
    reached: Record<string, string>;
    writes: Record<string, string>;
    processes: string[];
    unix: string;
    mounts: string;
    kernel: [string, string][];
    environment: Record<string, string>;
  };
  const look = await unharmed(() =>
    attack<Look>('look', { addresses: [...reached, ...neighbours.map((address) => `${address}:8080`)].join() }),
  );
  assert.ok(look);
  // One address of a container is the app's own.
  const own = Object.entries(look.reached).filter(([, result]) => result === 'connected');
  assert.ok(
    own.length <= 1 && own.every(([address]) => neighbours.includes(address.slice(0, -5))),
    JSON.stringify(own),
  );
  assert.equal(
    look.processes.map((line) => line.split('\0').at(-2)),
    ['/app.js'],
  );
  assert.equal(
    Object.entries(look.writes).filter(([, result]) => result === 'written'),
    [],
  );
  for (const [file, text] of look.kernel) assert.match(text, /^(E[A-Z]+)?$/, file);
  assert.is(look.unix.trim().split('\n').length, 1);
  assert.not.ok(look.mounts.includes(honest.ref));
  assert.equal(
    Object.keys(look.environment).filter((name) => /SLIPWAY|TOKEN|SECRET|KUBE/.test(name)),
    [],
  );
});

test('a full disk is full for its own app alone, and its owner empties it by a suspension', async () => {
  const setSuspended = async (suspended: boolean) =>
    assert.is((await person.call('PATCH', `/projects/${hostile.id}`, { suspended })).status, 200);
  await unharmed(async () => {
    const result = await attack<{ bytes: number; code: string }>('disk');
    assert.ok(result);
    assert.is(result.code, 'ENOSPC');
    assert.ok(result.bytes > LIMITS.diskBytes / 2 && result.bytes < LIMITS.diskBytes, `${result.bytes} bytes`);
    const restarts = await restartsNow();
    await attack('bomb', { seconds: 1 });
    await backAgain(restarts);
    push(own, 'hostile', { 'app.js': hostileOf(2) });
    const full = await deployed(own, hostile);
    assert.is(full.phase, 'Failed');
    assert.match(full.log, /no space left on device/);
    assert.is((await page(hostile))?.version, 1);
    await setSuspended(true);
    await until(() => enginesOf(hostile).length === 0, 'its processes to end', PATIENCE_MS);
    await setSuspended(false);
    await until(() => page(hostile), 'the app to serve', PATIENCE_MS);
    const build = await deployed(own, hostile);
    assert.is(build.phase, 'Deployed', build.log);
    await until(async () => (await page(hostile))?.version === 2, 'the second version to serve', PATIENCE_MS);
  });
});

test('no attack ended a program of the platform, and no cookie of the neighbour reached the app', async () => {
  assert.equal(await programsOfPlatform(), programs);
  assert.not.ok(JSON.stringify(await seenByHostile()).includes(SECRET));
});

attacks.run();

/**
 * Attacks the network of a container, as root, from the container's own network namespace: with its rules, and without
 * them, so that only the rules of this machine are left. The internet is a namespace with a public address.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { NOT_PUBLIC } from '@slipway/program';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { addressesOf, closeNetwork, type NetworkPlace, openNetwork, unlinkNetwork } from './container-network.js';
import { foreignDrops, openRouting } from './machine-routing.js';
import { ProjectSpace } from './project-space.js';

const PORT = 8080;
const MINE = process.pid % 10_000;
/** Public addresses that no test of another process uses at the same time. */
const INTERNET = {
  name: `test-inet-${MINE}`,
  link: `tinet${MINE}`,
  machine: `11.${MINE >> 8}.${MINE & 255}.1`,
  other: `11.${MINE >> 8}.${MINE & 255}.2`,
};
const PRIVATE = {
  name: `test-priv-${MINE}`,
  link: `tpriv${MINE}`,
  machine: `10.${MINE >> 8}.${MINE & 255}.1`,
  other: `10.${MINE >> 8}.${MINE & 255}.2`,
};
type Neighbour = typeof INTERNET;

/** Responds to each connection with the address that it comes from. */
const SERVER = `require('node:net').createServer((socket) => socket.end(socket.remoteAddress))
  .listen(${PORT}, '0.0.0.0', () => console.log('listens'))`;
/** Prints the response, or why there is none. Arguments: an address, a port, and the address to connect from. */
const CLIENT = `const [host, port, localAddress] = process.argv.slice(1);
const socket = require('node:net').connect({ host, port: Number(port), localAddress, timeout: 700 });
socket.on('data', (bytes) => console.log(String(bytes)));
socket.on('timeout', () => { console.log('timeout'); process.exit(); });
socket.on('error', ({ code }) => console.log(code));`;

/** Sends its input over one connection, and prints what it receives. Arguments: an address and a port. */
const HOLDER = `const [host, port] = process.argv.slice(1);
const socket = require('node:net').connect({ host, port: Number(port) });
process.stdin.pipe(socket).pipe(process.stdout);`;

const isRoot = process.platform === 'linux' && process.getuid?.() === 0;
const hasPrograms = spawnSync('sh', ['-c', 'command -v nft && command -v ip']).status === 0;
if (!isRoot || !hasPrograms) console.log('# skipped: it needs root, nftables and iproute2');
const network = suite('container network');
const test = isRoot && hasPrograms ? network : network.skip;

const top = mkdtempSync('/run/slipway-test-');
chmodSync(top, 0o711);
let space: ProjectSpace;
const servers: ChildProcess[] = [];
const ann: NetworkPlace = { name: `slipway-test-${MINE}-ann`, pair: 65_000 - (MINE % 1000) * 2, closed: NOT_PUBLIC };
const bob: NetworkPlace = { ...ann, name: `slipway-test-${MINE}-bob`, pair: ann.pair + 1 };

function system(...command: [string, ...string[]]): string {
  const [program, ...words] = command;
  const { status, stdout, stderr } = spawnSync(program, words, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command.join(' ')}: ${stderr}`);
  return stdout.trim();
}

const within = (name: string, ...command: string[]) => system('ip', 'netns', 'exec', name, ...command);

/** Returns the result of a connection from the namespace. */
const connection = (from: string, to: string, port = PORT, by: string[] = []) =>
  within(from, process.execPath, '-e', CLIENT, to, String(port), ...by);

/** Makes a namespace behind a link of this machine, which knows the way to containers. */
function openNeighbour({ name, link, machine, other }: Neighbour): void {
  system('ip', 'netns', 'add', name);
  system('ip', 'link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
  // Packets of IPv6 would count as packets of containers.
  system('sh', '-c', `echo 1 >/proc/sys/net/ipv6/conf/${link}/disable_ipv6`);
  system('ip', 'address', 'add', `${machine}/24`, 'dev', link);
  system('ip', 'link', 'set', link, 'up');
  system('ip', '-n', name, 'address', 'add', `${other}/24`, 'dev', 'eth0');
  system('ip', '-n', name, 'link', 'set', 'eth0', 'up');
  system('ip', '-n', name, 'route', 'add', 'default', 'via', machine);
}

/** Starts a server in the namespace, or on this machine. */
async function serve(name?: string): Promise<void> {
  const command = [process.execPath, '-e', SERVER];
  const [program, ...words] = name === undefined ? command : ['ip', 'netns', 'exec', name, ...command];
  const server = spawn(program as string, words, { stdio: ['ignore', 'pipe', 'inherit'] });
  servers.push(server);
  await once(server.stdout as NodeJS.ReadableStream, 'data');
}

network.before(async () => {
  if (!isRoot || !hasPrograms) return;
  space = await ProjectSpace.open({ folder: path.join(top, 'space'), firstId: 0x7100_0000 });
  for (const neighbour of [INTERNET, PRIVATE]) openNeighbour(neighbour);
  for (const place of [ann, bob]) await openNetwork(space, place);
  // Without a rule, packets would also be forwarded from the one to the other.
  await openRouting([INTERNET.link, PRIVATE.link]);
  await Promise.all([INTERNET.name, PRIVATE.name, bob.name].map((name) => serve(name)));
  await serve();
});

network.after(async () => {
  for (const server of servers) server.kill('SIGKILL');
  for (const { name, link } of [INTERNET, PRIVATE]) {
    spawnSync('ip', ['link', 'delete', link]);
    spawnSync('ip', ['netns', 'delete', name]);
    rmSync(`/run/slipway-routed/${link}`, { force: true });
  }
  for (const place of space ? [ann, bob] : []) await closeNetwork(space, place);
  await space?.close();
  rmSync(top, { recursive: true, force: true });
});

/** Addresses that no container may reach, with the party at each. */
function closedTo(place: NetworkPlace): [string, string][] {
  const own = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses);
  const addresses = own.filter(({ family, address }) => family === 'IPv4' && address !== '127.0.0.1');
  return [
    ...addresses.map(({ address }): [string, string] => [address, 'this machine']),
    [addressesOf(place.pair).machine, 'its end of the link'],
    [addressesOf(bob.pair).container, 'a neighbour'],
    [PRIVATE.other, 'a private network'],
  ];
}

test('a container reaches a public address, which sees the address of this machine', () => {
  assert.is(connection(ann.name, INTERNET.other), INTERNET.machine);
});

test('the rules are written again without an end of the connections and of the sets', async () => {
  await openRouting();
  await Promise.all([openRouting(), openRouting([INTERNET.link]), openRouting()]);
  assert.is(connection(ann.name, INTERNET.other), INTERNET.machine);
});

test('a container reaches no address of this machine, of a neighbour and of a private network', () => {
  for (const [address, party] of closedTo(ann)) {
    assert.match(connection(ann.name, address), /^(timeout|E[A-Z]+)$/, `${party} at ${address}`);
  }
});

const didRoute = readFileSync('/proc/sys/net/ipv4/ip_forward', 'utf8').trim() === '1';

test('the internet reaches no container, and no private network through this machine', () => {
  assert.is(connection(INTERNET.name, addressesOf(bob.pair).container), 'timeout');
  // A machine that routed before, for another program, still does.
  if (!didRoute) assert.is(connection(INTERNET.name, PRIVATE.other), 'timeout');
  assert.is(connection(PRIVATE.name, addressesOf(bob.pair).container), 'timeout');
});

test('without the rules of its namespace, a container is stopped by those of this machine', () => {
  for (const { name } of [ann, bob]) within(name, 'nft', 'flush', 'ruleset');
  assert.is(connection(ann.name, INTERNET.other), INTERNET.machine, 'the internet is reached');
  for (const [address, party] of closedTo(ann)) assert.is(connection(ann.name, address), 'timeout', party);
});

test('a network that the installation opens is reached, except this machine and other containers', async () => {
  const opened = { networks: ['0.0.0.0/0', '10.0.0.0/8'], except: [`${PRIVATE.machine}/32`] };
  await openNetwork(space, { ...ann, opened });
  assert.is(connection(ann.name, PRIVATE.other), PRIVATE.machine);
  await openRouting();
  assert.is(connection(ann.name, PRIVATE.other), PRIVATE.machine, 'after the rules are written again');
  const closed = closedTo(ann).filter(([address]) => address !== PRIVATE.other);
  for (const [address, party] of closed) assert.not.match(connection(ann.name, address), /^\d/, party);
  within(ann.name, 'nft', 'flush', 'ruleset');
  for (const [address, party] of closed) assert.is(connection(ann.name, address), 'timeout', party);
  assert.is(connection(bob.name, PRIVATE.other), 'timeout', 'another container');
});

test('a network is closed again with the next container', async () => {
  await openNetwork(space, ann);
  within(ann.name, 'nft', 'flush', 'ruleset');
  assert.is(connection(ann.name, PRIVATE.other), 'timeout');
});

test('the end of a link ends connections that a container holds open, and the container gets no other', async () => {
  // The end of the link tells this side nothing, so its socket would keep the process.
  const echo = createServer((socket) => socket.unref().pipe(socket)).listen(0, '127.0.0.1');
  await once(echo, 'listening');
  const { port } = echo.address() as AddressInfo;
  const { machine } = addressesOf(ann.pair);
  await openNetwork(space, { ...ann, linked: [{ host: '127.0.0.1', port }] });
  const client = spawn('ip', ['netns', 'exec', ann.name, process.execPath, '-e', HOLDER, machine, String(port)]);
  const answer = async (word: string) => {
    client.stdin.write(word);
    const [bytes] = await Promise.race([once(client.stdout, 'data'), sleep(1_500, ['nothing'])]);
    return String(bytes);
  };
  try {
    assert.is(await answer('first'), 'first');
    await openRouting();
    assert.is(await answer('second'), 'second', 'after the rules are written again');
    await unlinkNetwork(ann);
    assert.is(await answer('third'), 'nothing');
    assert.is(connection(ann.name, machine, port), 'timeout');
  } finally {
    client.kill('SIGKILL');
    echo.close();
    await openNetwork(space, ann);
  }
});

test('a packet with an address of another container or network is dropped', () => {
  const spoofed = [addressesOf(bob.pair).container, '198.19.255.254', PRIVATE.other, '11.255.0.9'];
  const sent = () => {
    const line = readFileSync('/proc/net/dev', 'utf8')
      .split('\n')
      .find((each) => each.includes(INTERNET.link));
    return Number(line?.trim().split(/\s+/)[10]);
  };
  for (const address of spoofed) {
    system('ip', '-n', ann.name, 'address', 'add', `${address}/32`, 'dev', 'eth0');
    const before = sent();
    assert.is(connection(ann.name, INTERNET.other, PORT, [address]), 'timeout', address);
    assert.is(sent(), before, `packets from ${address}`);
  }
});

test('IPv6 is closed', () => {
  const link = `slipway${ann.pair}`;
  assert.is(system('cat', `/proc/sys/net/ipv6/conf/${link}/disable_ipv6`), '1');
  assert.is(system('ip', '-6', 'address', 'show', 'dev', link), '');
});

test('a table of others that drops forwarded packets is found', async () => {
  // A dormant table drops nothing.
  const table = `test_drops_${MINE}`;
  assert.not.ok((await foreignDrops()).includes(`ip ${table} f`));
  system('nft', `add table ip ${table} { flags dormant; }`);
  try {
    system('nft', `add chain ip ${table} f { type filter hook forward priority 0; policy drop; }`);
    assert.ok((await foreignDrops()).includes(`ip ${table} f`));
  } finally {
    system('nft', 'delete', 'table', 'ip', table);
  }
});

network.run();

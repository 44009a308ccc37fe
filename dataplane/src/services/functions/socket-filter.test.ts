/** Tests attacks from a process under the socket filter that has all of Deno's permissions. */
import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { canFilterSockets, filteredSockets, hasNameServersByIPv6, installedDeno } from '@slipway/sandbox';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const run = promisify(execFile);
const runAll = async ([program, ...args]: string[]) => (await run(program as string, args, { timeout: 50_000 })).stdout;
const deno = installedDeno();
const folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
test.after(() => rmSync(folder, { recursive: true, force: true }));

function scriptOf(name: string, code: string): string {
  const file = path.join(folder, name);
  writeFileSync(file, code);
  return file;
}

test('the socket filter detects a resolver’s file with an IPv6 server', () => {
  const files: [string, boolean][] = [
    ['nameserver 10.0.0.53\nsearch a::b\n', false],
    ['# nameserver fd00::53\nnameserver 127.0.0.53\n', false],
    ['nameserver 10.0.0.53\n nameserver\tfe80::1%eth0\n', true],
    ['nameserver ::1', true],
  ];
  for (const [text, expected] of files) assert.is(hasNameServersByIPv6(scriptOf('resolv.conf', text)), expected, text);
  assert.is(hasNameServersByIPv6(path.join(folder, 'missing')), false);
});

/** Script that opens a socket of each kind through the C library. It prints an error number for each; 0 is success. */
const SOCKETS = `
  const [, ...kinds] = [0, ...Deno.args];
  const { socket, __errno_location } = Deno.dlopen('libc.so.6', {
    socket: { parameters: ['i32', 'i32', 'i32'], result: 'i32' },
    __errno_location: { parameters: [], result: 'pointer' },
  }).symbols;
  const errno = () => new Deno.UnsafePointerView(__errno_location()).getInt32();
  const open = (kind) => (socket(...kind.split(' ').map(Number)) >= 0 ? 0 : errno());
  console.log(kinds.map(open).join(' '));`;
const [UNIX, INET, INET6, NETLINK, PACKET, ALG, VSOCK] = [1, 2, 10, 16, 17, 38, 40];
const [STREAM, DATAGRAM, RAW, CLOSED_ON_EXEC] = [1, 2, 3, 0o2_000_000];

async function openSockets(nameServersByIPv6: boolean, kinds: [family: number, type: number][]): Promise<string> {
  const script = scriptOf('sockets.js', SOCKETS);
  const attack = [deno, 'run', '--no-config', '--allow-all', script, ...kinds.map((kind) => `${kind.join(' ')} 0`)];
  return (await runAll([...filteredSockets(deno, nameServersByIPv6), ...attack])).trim();
}

/** Addresses of the peer, one of each kind that is not public. The last one maps to its IPv4 address. */
const ADDRESSES = {
  'a unique local address': 'fd12:3456::2',
  'a link-local address': 'fe80::2%lo',
  loopback: '::1',
  'an address of NAT64': '64:ff9b::7f00:1',
  'an address of 6to4': '2002:7f00:1::1',
  'an IPv4-compatible address': '::127.0.0.9',
  'an IPv4-mapped address': '::ffff:127.0.0.1',
};
const PEER = `
  import { createServer } from 'node:http';
  import { createSocket } from 'node:dgram';
  let count = 0;
  const counting = () => createServer((_, outgoing) => outgoing.end(String(++count))).on('connection', () => count++);
  counting().listen({ port: 7000, host: '::', ipv6Only: true });
  counting().listen(7000, '127.0.0.1');
  createSocket('udp6').on('message', () => count++).bind(7000, '::');
  createServer((incoming, outgoing) => {
    if (incoming.url === '/count') return outgoing.end(String(count));
    outgoing.writeHead(302, { location: incoming.url.slice(1) }).end();
  }).listen(7001, '127.0.0.1', () => console.log('listens'));`;
/** Script that prints the ways in which it could connect to the peer. */
const WAYS = `
  import net from 'node:net';
  import http from 'node:http';
  const addresses = ${JSON.stringify(Object.values(ADDRESSES))};
  const port = 7000;
  const inUrl = (address) =>
    'http://' + (address.includes(':') ? '[' + address.split('%')[0] + ']' : address) + ':7000/';
  const emitted = (emitter, done) => new Promise((resolve) => emitter.on(done, resolve).on('error', resolve));
  const ways = {
    'Deno.connect': (hostname) => Deno.connect({ hostname, port }),
    'Deno.connectTls': async (hostname) => (await Deno.connectTls({ hostname, port })).handshake(),
    'node:net': (host) => emitted(net.connect({ host, port }), 'connect'),
    fetch: (address) => fetch(inUrl(address)),
    'a redirect': (address) => fetch('http://127.0.0.1:7001/' + inUrl(address)),
    'node:http': (address) => emitted(http.get(inUrl(address)), 'response'),
    WebSocket: (address) => new Promise((done) => { new WebSocket(inUrl(address)).onerror = done; }),
    'a DNS query': (ipAddr) => Deno.resolveDns('a.test', 'A', { nameServer: { ipAddr, port } }),
  };
  const count = async () => Number(await (await fetch('http://127.0.0.1:7001/count')).text());
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const isOpen = async (way, address) => {
    const before = await count();
    await Promise.race([Promise.resolve().then(() => way(address)).catch(() => {}), pause(500)]);
    await pause(10);
    return (await count()) > before;
  };
  for (const [name, way] of Object.entries(ways))
    for (const address of [...addresses, 'peer.test'])
      if (await isOpen(way, address)) console.log(name + ' ' + address);
  Deno.exit();`;
/** Script that runs a command as root of new namespaces. $1: Node, $2: the peer, $3: the file of hosts. */
const NEIGHBOURHOOD = `set -e
  ip link set lo up
  for address in fd12:3456::2 fe80::2 64:ff9b::7f00:1 2002:7f00:1::1 ::127.0.0.9; do
    ip -6 addr add $address/128 dev lo nodad; done
  mount --bind "$3" /etc/hosts
  "$1" --input-type=module --eval "$2" >"$3.out" & peer=$!
  until grep -q listens "$3.out"; do kill -0 $peer; sleep 0.02; done
  shift 3
  "$@"
  kill $peer`;
const UNSHARED = ['unshare', '--user', '--map-root-user', '--net', '--mount', 'sh', '-c'] as const;

async function waysToPeer(within: string[]): Promise<string[]> {
  const hosts = scriptOf('hosts', '127.0.0.1 localhost\nfd12:3456::2 peer.test\n');
  const attack = [deno, 'run', '--no-config', '--allow-all', scriptOf('ways.js', WAYS)];
  const all = [...UNSHARED, NEIGHBOURHOOD, 'sh', process.execPath, PEER, hosts, ...within, ...attack];
  return (await runAll(all)).split('\n').filter(Boolean);
}

const canUnshare = () =>
  spawnSync(UNSHARED[0], [...UNSHARED.slice(1), 'ip link set lo up && mount -t tmpfs none /mnt']).status === 0;

if (!canFilterSockets(deno)) console.log('# skipped: the system filters no sockets');
else {
  test('the socket filter allows sockets of IPv4, Unix and netlink, and no others', async () => {
    const allowed: [number, number][] = [
      [UNIX, STREAM],
      [INET, STREAM],
      [INET, DATAGRAM | CLOSED_ON_EXEC],
      [NETLINK, RAW],
    ];
    const refused: [number, number][] = [
      [INET6, STREAM],
      [INET6, STREAM | CLOSED_ON_EXEC],
      [INET6, DATAGRAM],
      [INET6, RAW],
      [PACKET, RAW],
      [ALG, STREAM],
      [VSOCK, STREAM],
    ];
    assert.is(await openSockets(false, [...allowed, ...refused]), '0 0 0 0 97 97 97 97 97 97 97');
  });

  test('the socket filter allows IPv6 datagrams, and no streams, if a resolver has an IPv6 address', async () => {
    const kinds: [number, number][] = [
      [INET6, DATAGRAM | CLOSED_ON_EXEC],
      [INET6, STREAM],
      [INET6, RAW],
      [INET, STREAM],
      [VSOCK, DATAGRAM],
    ];
    assert.is(await openSockets(true, kinds), '0 97 97 0 97');
  });

  test('the socket filter applies to all descendants of the process', async () => {
    const script = scriptOf('nested.js', SOCKETS);
    const nested = `${deno} run --no-config --allow-all ${script} '${INET6} ${STREAM} 0'`;
    const stdout = await runAll([...filteredSockets(deno), '/bin/sh', '-c', `/bin/sh -c "${nested}"`]);
    assert.is(stdout.trim(), '97');
  });

  if (!canUnshare()) console.log('# skipped: the system gives no network namespaces, or has no ip');
  else
    test('the socket filter blocks every way to a private IPv6 address that works without it', async () => {
      const open = await waysToPeer([]);
      for (const [kind, address] of Object.entries(ADDRESSES))
        assert.ok(
          open.includes(`Deno.connect ${address}`),
          `${kind} is reached without the filter: ${open.join(', ')}`,
        );
      for (const way of ['Deno.connectTls', 'node:net', 'fetch', 'a redirect', 'node:http', 'WebSocket', 'a DNS query'])
        assert.ok(open.includes(`${way} fd12:3456::2`), `${way} leads there without the filter: ${open.join(', ')}`);
      assert.ok(open.includes('fetch peer.test') && open.includes('Deno.connect peer.test'));
      assert.equal(await waysToPeer(filteredSockets(deno)), []);
    });
}

test.run();

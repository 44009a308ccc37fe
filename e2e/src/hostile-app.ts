/** The program of a hostile app. The path of a request names its attack. Every attack ends by itself. */
export const HOSTILE_APP = String.raw`
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const { createServer } = require('node:http');
const net = require('node:net');

const MIB = 2 ** 20;
const seen = [];
const kept = [];
const turn = () => new Promise(setImmediate);

/** Appends to a file until there is an error, or so many bytes are written. */
function fill(file, most) {
  const chunk = Buffer.alloc(MIB, 'x');
  let bytes = 0;
  let descriptor;
  try {
    descriptor = fs.openSync(file, 'a');
    while (bytes < most) bytes += fs.writeSync(descriptor, chunk);
    return { bytes };
  } catch ({ code }) {
    return { bytes, code };
  } finally {
    if (descriptor !== undefined) fs.closeSync(descriptor);
  }
}

/** Connects, and resolves with 'connected' or the reason why not. */
const connection = (host, port) =>
  new Promise((resolve) => {
    const socket = net.connect({ host, port, timeout: 1500 });
    const end = (result) => {
      socket.destroy();
      resolve(result);
    };
    socket.on('connect', () => end('connected'));
    socket.on('timeout', () => end('timeout'));
    socket.on('error', ({ code }) => end(code));
  });

const textOf = (file) => {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch ({ code }) {
    return code;
  }
};

const attacks = {
  seen: () => seen,

  /** Starts processes until there is an error. */
  async processes() {
    const children = [];
    let failure;
    while (failure === undefined && children.length < 10_000) {
      const child = spawn('/bin/sleep', ['600'], { stdio: 'ignore' });
      child.on('error', ({ code }) => {
        failure = code;
      });
      if (child.pid) children.push(child);
      await turn();
    }
    for (const child of children) child.kill('SIGKILL');
    return { started: children.length, failure };
  },

  /** Each process starts two others without end, until this process ends all of them. */
  bomb({ seconds }) {
    spawn('/bin/sh', ['-c', 'b() { b & b & }; while :; do b; done'], { stdio: 'ignore' }).on('error', () => {});
    setTimeout(() => process.exit(9), Number(seconds) * 1000);
    return 'begun';
  },

  /** Allocates up to 8 GiB. */
  async memory() {
    for (let at = 0; at < 512; at += 1) {
      kept.push(Buffer.alloc(16 * MIB, 1));
      await turn();
    }
    return 'not ended';
  },

  /** Writes to a file of the container. */
  fill: ({ file, mebibytes }) => fill(file, Number(mebibytes) * MIB),

  /** Takes the whole disk: the large part without writing it, so that the attack takes seconds. */
  disk() {
    const size = 64 * MIB;
    let at = 0;
    while (at < 4096 && spawnSync('/usr/bin/fallocate', ['-l', String(size), '/run/taken-' + at]).status === 0) at += 1;
    const rest = fill('/run/rest', 1024 * MIB);
    for (let i = 0; i < 10_000; i += 1) if (fill('/run/small-' + i, 1).code) break;
    return { bytes: at * size + rest.bytes, code: rest.code };
  },

  /** Prints lines of a size, or one line without an end. */
  async output({ mebibytes, line }) {
    const size = Number(line ?? 0);
    const chunk = size === 0 ? 'x'.repeat(MIB) : ('x'.repeat(size - 1) + '\n').repeat(MIB / size);
    for (let at = 0; at < Number(mebibytes); at += 1) {
      for (let rest = Buffer.from(chunk); rest.length > 0; ) {
        try {
          rest = rest.subarray(fs.writeSync(at % 2 ? 1 : 2, rest));
        } catch ({ code }) {
          if (code !== 'EAGAIN') return { code };
        }
        await turn();
      }
    }
    return 'printed';
  },

  /** Starts processes that run the function with as many sockets as each may open. They end after it. */
  async sockets({ of, processes }) {
    const output = [];
    await Promise.all(
      Array.from({ length: Number(processes) }, async () => {
        const program = '({' + SOCKETS[of] + '}).' + of + '()';
        const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
        for await (const bytes of child.stdout) output.push(String(bytes));
      }),
    );
    return output;
  },

  /** Returns what the container can see and do. */
  async look({ addresses = '' }) {
    const reached = {};
    await Promise.all(
      addresses.split(',').filter(Boolean).map(async (address) => {
        const at = address.lastIndexOf(':');
        reached[address] = await connection(address.slice(0, at), Number(address.slice(at + 1)));
      }),
    );
    const writes = {};
    for (const file of [
      '/proc/sysrq-trigger', '/proc/sys/kernel/core_pattern', '/proc/sys/vm/drop_caches', '/proc/1/oom_score_adj',
      '/sys/kernel/uevent_helper', '/sys/fs/cgroup/memory/memory.limit_in_bytes', '/sys/fs/cgroup/pids/pids.max',
      '/sys/fs/cgroup/cgroup.procs', '/sys/fs/cgroup/memory/cgroup.procs', '/proc/sys/net/ipv4/ip_forward',
      '/sys/fs/cgroup/memory.max', '/sys/fs/cgroup/pids.max', '/sys/fs/cgroup/cgroup.subtree_control',
    ]) {
      try {
        fs.writeFileSync(file, '-1');
        writes[file] = 'written';
      } catch ({ code }) {
        writes[file] = code;
      }
    }
    return {
      reached,
      writes,
      processes: fs
        .readdirSync('/proc')
        .filter((name) => /^\d+$/.test(name))
        .map((pid) => textOf('/proc/' + pid + '/cmdline')),
      mounts: textOf('/proc/self/mountinfo'),
      unix: textOf('/proc/net/unix'),
      tcp: textOf('/proc/net/tcp'),
      kernel: ['/proc/kcore', '/proc/keys', '/proc/kmsg', '/dev/mem', '/dev/vda', '/dev/loop0'].map(
        (file) => [file, textOf(file).slice(0, 20)],
      ),
      environment: process.env,
    };
  },
};

const SOCKETS = {
  /** Opens listening sockets. */
  listening() {
    const { createServer } = require('node:net');
    let failed;
    let count = 0;
    const open = () =>
      createServer()
        .once('error', ({ code }) => process.stdout.write(count + ' ' + code, () => process.exit()))
        .listen(0, '127.0.0.1', () => {
          count += 1;
          open();
        });
    open();
  },

  /** Opens connections whose bytes nobody reads. */
  connections() {
    const net = require('node:net');
    const chunk = Buffer.alloc(2 ** 20);
    const sink = net.createServer({ pauseOnConnect: true }, (socket) => socket.on('error', () => {}));
    sink.listen(0, '127.0.0.1', 4096, () => {
      const { port } = sink.address();
      for (let at = 0; at < 480; at += 1) {
        const socket = net.connect({ port, host: '127.0.0.1' });
        socket.on('error', () => {}).on('connect', () => {
          for (let i = 0; i < 16; i += 1) socket.write(chunk);
        });
      }
    });
    setTimeout(() => process.exit(), 10_000);
  },

  /** Sends packets that nobody reads, because this process does not wait for any. */
  async datagrams() {
    const { createSocket } = require('node:dgram');
    const sockets = [];
    for (let at = 0; at < 900; at += 1) {
      const socket = createSocket({ type: 'udp4', lookup: (host, _, done) => done(null, host, 4) });
      await new Promise((done) => socket.bind(0, '127.0.0.1', done));
      sockets.push(socket);
    }
    const packet = Buffer.alloc(60_000);
    for (const to of sockets) for (let i = 0; i < 8; i += 1) sockets[0].send(packet, to.address().port, '127.0.0.1');
    const until = Date.now() + 5_000;
    while (Date.now() < until);
    process.exit();
  },
};

/** Responses as bytes. */
const RESPONSES = {
  split: 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison',
  hop: 'HTTP/1.1 200 OK\r\nConnection: keep-alive, x-private\r\nX-Private: 1\r\nKeep-Alive: timeout=600\r\n' +
    'Proxy-Authenticate: Basic\r\nTrailer: x\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nok',
  longer: 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more than that',
  switching: 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nbytes',
  twice: 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  folded: 'HTTP/1.1 200 OK\r\nX-A: 1\r\n Set-Cookie: b\r\nContent-Length: 0\r\n\r\n',
};

/** Sends the start of headers, and then one more header again and again until the connection is closed. */
async function endlessHeaders(socket, value, pause) {
  socket.write('HTTP/1.1 200 OK\r\n');
  const until = Date.now() + 60_000;
  while (!socket.destroyed && Date.now() < until) {
    socket.write('X-A: ' + value + '\r\n');
    await new Promise((done) => setTimeout(done, pause));
  }
  socket.destroy();
}

const server = createServer(async (request, response) => {
  const { method, url, headers, rawHeaders, socket } = request;
  const { pathname, searchParams } = new URL(url, 'http://app');
  const [, name, which] = pathname.split('/');
  if (name === 'raw') return void socket.write(RESPONSES[which]);
  if (name === 'endless') return void endlessHeaders(socket, 'x'.repeat(1000), 1);
  let body = '';
  for await (const chunk of request) body += chunk;
  if (name !== 'seen') seen.push({ method, url, headers, rawHeaders, body });
  try {
    const result = attacks[name]?.(Object.fromEntries(searchParams)) ?? { version: VERSION };
    response.end(JSON.stringify(await result));
  } catch (error) {
    response.writeHead(500).end(error.stack);
  }
});
server.on('clientError', (_, socket) => {
  seen.push({ url: 'not HTTP' });
  socket.destroy();
});
server.on('upgrade', (request, socket) => {
  socket.on('error', () => {}).on('end', () => socket.end());
  socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
  socket.resume();
});
// A request that is broken off must not end the attacks.
process.on('uncaughtException', () => {});
process.on('SIGTERM', () => process.exit(0));
server.listen(process.env.PORT);
`;

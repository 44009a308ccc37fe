import { createConnection, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { listenOptions } from '@slipway/program';
import { StartProblem } from './problem.js';
import type { Settings } from './settings.js';

/** Maximum milliseconds to wait for a port, because programs of a killed start end by themselves a moment later. */
const PATIENCE_MS = 5_000;

/** Distance between the ports of the failed start and the suggested ports. */
const PORT_STEP = 10;
const MOST_SUGGESTIONS = 10;

/** Throws an error of one line if another program uses one of our ports. The line names the port and the fix. */
export async function expectFreePorts(settings: Settings): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  expectDistinctPorts(settings);
  await expectFreeTlsPorts(settings, deadline);
  for (const { host, port, use, variable } of listenersOf(settings, settings.ports.people)) {
    const code = await whyTaken({ host, port }, deadline);
    if (!code) continue;
    if (code !== 'EADDRINUSE')
      throw new StartProblem(`cannot listen at ${host}:${port} (${code}): ${fixFor(code, variable)}`);
    throw new StartProblem(
      `port ${port} (${use}) is taken by another program: end that (another Slipway by npm stop in its folder), ` +
        `or start this one on other ports: SLIPWAY_PORT=${await otherPort(settings)} npm start`,
    );
  }
}

/** Each port may be free, and still be wanted by two listeners of this platform. */
export function expectDistinctPorts(settings: Settings): void {
  const all = listenersOf(settings, settings.ports.people).map(({ host, port, use }) => ({ host, port, use }));
  for (const own of tlsListenersOf(settings)) {
    const other = all.find(({ host, port }) => port === own.port && doMeet(host, own.host));
    if (other)
      throw new StartProblem(`${own.use} is the same port as ${other.use}, ${own.port}: set it to another port`);
    all.push(own);
  }
}

const EVERY_ADDRESS = new Set(['::', '0.0.0.0']);

const doMeet = (one: string, other: string) => one === other || EVERY_ADDRESS.has(one) || EVERY_ADDRESS.has(other);

/** Returns the addresses of HTTPS and of plain HTTP beside it, as far as they are set; `use` is the setting. */
function tlsListenersOf({ tls }: Settings): { host: string; port: number; use: string; at: string }[] {
  const set = [
    { use: 'SLIPWAY_HTTPS_PORT', at: tls?.https },
    { use: 'SLIPWAY_HTTP_PORT', at: tls?.http },
  ];
  return set.flatMap(({ use, at }) =>
    at === undefined ? [] : [{ ...(listenOptions(at) as { host: string; port: number }), use, at }],
  );
}

async function expectFreeTlsPorts(settings: Settings, deadline: number): Promise<void> {
  for (const { host, port, use: variable, at } of tlsListenersOf(settings)) {
    const code = await whyTaken({ host, port }, deadline);
    if (!code) continue;
    const fix =
      code === 'EADDRINUSE'
        ? `another program, such as a web server, has it: end that, or set ${variable} to another port`
        : code === 'EACCES'
          ? 'only root may use it: start the platform as root, or set a port above 1024 to which a router forwards it'
          : `set ${variable} to an address of this machine and a port, such as 0.0.0.0:${port}`;
    throw new StartProblem(`cannot listen at ${at} (${variable}, ${code}): ${fix}`);
  }
}

/** Returns the three addresses of a platform whose SLIPWAY_PORT is `port`. */
const listenersOf = ({ host, kubernetesHost, postgresHost }: Settings, port: number) => [
  { host, port, use: 'SLIPWAY_PORT', variable: 'SLIPWAY_HOST' },
  {
    host: kubernetesHost,
    port: port + 1,
    use: 'SLIPWAY_PORT + 1, for the Kubernetes API',
    variable: 'SLIPWAY_KUBERNETES_HOST',
  },
  { host: postgresHost, port: port + 2, use: 'SLIPWAY_PORT + 2, for Postgres', variable: 'SLIPWAY_POSTGRES_HOST' },
];

/** Returns a SLIPWAY_PORT whose three ports are free, or `<number>` if no such port was found. */
async function otherPort(settings: Settings): Promise<string> {
  for (let tried = 1; tried <= MOST_SUGGESTIONS; tried++) {
    const port = settings.ports.people + tried * PORT_STEP;
    if (port + 2 > MOST_PORT) break;
    const codes = await Promise.all(listenersOf(settings, port).map((each) => tryToListen(each.host, each.port)));
    if (codes.every((code) => code === undefined)) return String(port);
  }
  return '<number>';
}

const MOST_PORT = 65_535;

const fixFor = (code: string, variable: string) =>
  code === 'EADDRNOTAVAIL'
    ? `set ${variable} to an address of this machine`
    : 'set SLIPWAY_PORT to a number above 1024';

/** Returns the error code of an address at which nothing can listen. Waits until `deadline` if a program uses it. */
async function whyTaken({ host, port }: { host: string; port: number }, deadline: number): Promise<string | undefined> {
  for (;;) {
    const code = await tryToListen(host, port);
    if (code !== 'EADDRINUSE' || performance.now() > deadline) return code;
    await sleep(100);
  }
}

async function tryToListen(host: string, port: number): Promise<string | undefined> {
  const server = createServer();
  return await new Promise((resolve) => {
    server.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}

/** True if a program accepts connections at a Unix socket or a TCP address. */
export async function answers(address: { path: string } | { host: string; port: number }): Promise<boolean> {
  const socket = createConnection(address);
  return await new Promise((resolve) => {
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
  }).then((connected) => {
    socket.destroy();
    return connected as boolean;
  });
}

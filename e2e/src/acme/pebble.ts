/**
 * A real certificate authority for tests: pebble, from Let's Encrypt, with a DNS server whose answers the tests choose.
 * Debian has both in its package `pebble`. A proxy in front of pebble counts orders, and limits their rate, which
 * pebble itself does not do.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:https';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { serverCertificate } from '@slipway/slipway/certificate.js';
import { freePort, until } from '@slipway/testing';

const PROGRAMS = '/usr/bin';
export const isPebbleInstalled = ['pebble', 'pebble-challtestsrv'].every((name) =>
  existsSync(path.join(PROGRAMS, name)),
);

export interface Pebble {
  /** URL of the directory. */
  directory: string;
  /** A file with the certificate authority of the directory's own certificate. */
  certificates: string;
  /** The root of the certificates that pebble issues, in PEM. */
  root: string;
  /** The number of orders that pebble received, including refused ones. */
  orders(): number;
  /** Refuses orders for this number of seconds, like an authority whose rate limit is reached. 0 ends the limit. */
  limit(seconds: number): void;
  /** Makes every host name resolve to this loopback address. */
  resolveTo(address: string): Promise<void>;
  close(): Promise<void>;
}

/** Path at pebble to which new orders are sent. */
const NEW_ORDER = '/order-plz';

/** `httpPort` is the port at which pebble checks challenges. `seconds` is the lifetime of the certificates. */
export async function startPebble({ httpPort, seconds }: { httpPort: number; seconds: number }): Promise<Pebble> {
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-pebble-'));
  const port = await freePort(5);
  const [api, admin, dns, dnsAdmin, front] = [port, port + 1, port + 2, port + 3, port + 4];
  const own = await serverCertificate(folder, ['localhost', '127.0.0.1']);
  const config = path.join(folder, 'config.json');
  await writeFile(
    config,
    JSON.stringify({
      pebble: {
        listenAddress: `127.0.0.1:${api}`,
        managementListenAddress: `127.0.0.1:${admin}`,
        certificate: own.certificateFile,
        privateKey: own.keyFile,
        httpPort,
        tlsPort: 1,
        certificateValidityPeriod: seconds,
      },
    }),
  );
  const environment = { PATH: PROGRAMS, PEBBLE_VA_NOSLEEP: '1' };
  const run = (name: string, args: string[]) =>
    spawn(path.join(PROGRAMS, name), args, { env: environment, stdio: ['ignore', 'ignore', 'pipe'] });
  const programs = [
    run('pebble-challtestsrv', [
      ...['-dns01', `127.0.0.1:${dns}`, '-management', `127.0.0.1:${dnsAdmin}`, '-defaultIPv6', ''],
      ...['-http01', '', '-https01', '', '-tlsalpn01', ''],
    ]),
    run('pebble', ['-config', config, '-dnsserver', `127.0.0.1:${dns}`]),
  ];
  const output = programs.map(outputOf);
  const proxy = await startProxy(own, { api, front });
  const ca = await readFile(path.join(folder, 'ca.crt'), 'utf8');
  let root = '';
  await until(
    async () => {
      const ended = programs.findIndex(({ exitCode }) => exitCode !== null);
      if (ended >= 0) throw new Error(`pebble ended: ${output[ended]?.()}`);
      root = await get(`https://127.0.0.1:${admin}/roots/0`, ca).catch(() => '');
      return root !== '';
    },
    'pebble answers',
    30_000,
  );
  return {
    ...proxy,
    directory: `https://localhost:${front}/dir`,
    certificates: path.join(folder, 'ca.crt'),
    root,
    resolveTo: async (ip) => {
      const url = `http://127.0.0.1:${dnsAdmin}/set-default-ipv4`;
      const { ok } = await fetch(url, { method: 'POST', body: JSON.stringify({ ip }) });
      if (!ok) throw new Error('the DNS server refused the address');
    },
    close: async () => {
      await proxy.close();
      await Promise.all(programs.map(end));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function outputOf({ stderr }: ChildProcess): () => string {
  let text = '';
  stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    text = (text + chunk).slice(-4_000);
  });
  return () => text;
}

async function end(program: ChildProcess): Promise<void> {
  if (program.exitCode !== null || program.signalCode) return;
  const ended = once(program, 'exit');
  program.kill('SIGKILL');
  await ended;
}

/** Forwards requests to pebble, which derives its URLs from the header Host. */
async function startProxy(
  { certificateFile, keyFile, authority }: Awaited<ReturnType<typeof serverCertificate>>,
  { api, front }: { api: number; front: number },
) {
  let orders = 0;
  let limited = 0;
  const server = createServer({ cert: await readFile(certificateFile), key: await readFile(keyFile) });
  server.on('request', (incoming, outgoing) => {
    if (incoming.url === NEW_ORDER) orders++;
    if (incoming.url === NEW_ORDER && limited > 0) {
      incoming.resume();
      outgoing.writeHead(429, { 'content-type': 'application/problem+json', 'retry-after': String(limited) });
      outgoing.end(
        JSON.stringify({
          type: 'urn:ietf:params:acme:error:rateLimited',
          detail: 'too many certificates already issued',
        }),
      );
      return;
    }
    const { method, headers, url } = incoming;
    const forwarded = request({
      host: '127.0.0.1',
      port: api,
      path: url,
      method,
      headers,
      ca: authority,
      agent: false,
    });
    forwarded.on('response', (answer) => {
      outgoing.writeHead(answer.statusCode as number, answer.headers);
      answer.pipe(outgoing);
    });
    forwarded.on('error', () => outgoing.destroy());
    incoming.pipe(forwarded);
  });
  await new Promise<void>((resolve) => server.listen(front, '127.0.0.1', resolve));
  return {
    orders: () => orders,
    limit: (seconds: number) => {
      limited = seconds;
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function get(url: string, ca: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { ca, agent: false });
    outgoing.on('response', async (answer) => {
      let text = '';
      for await (const chunk of answer.setEncoding('utf8')) text += chunk;
      resolve(text);
    });
    outgoing.on('error', reject).end();
  });
}

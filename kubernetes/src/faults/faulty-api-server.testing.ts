/**
 * A Kubernetes API server for tests that fails on request. It is a proxy before a real one, with TLS on both sides. In:
 * the kubeconfig of the real server, and the faults to inject. Out: a kubeconfig of the proxy.
 */
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { kubeconfigOf, makeCertificates } from '@slipway/apiserver';
import { loadKubeConfig } from '../kubeconfig.js';
import { Cable } from './cable.testing.js';
import { answerOf, type Refusal } from './refusals.testing.js';

export interface Faults {
  /** The share of writes that are refused. Half of these are executed all the same. */
  failedWrites: number;
  /** The longest duration of a watch before it gets 410 for its version. 0: no limit. */
  watchMs: number;
}

const NO_FAULTS: Faults = { failedWrites: 0, watchMs: 0 };
const REFUSALS: Refusal[] = [409, 429, 500];
/** Share of new watches that are rejected at once, as for an expired version. */
const REFUSED_WATCHES = 0.25;
const CLOCK_GRAIN_MS = 2;

export class FaultyApiServer {
  readonly #random: () => number;
  readonly #target: https.RequestOptions;
  readonly #folder: string;
  #server: https.Server | undefined;
  #cable: Cable | undefined;
  /** The number of times that each fault happened, so that a test can assert that it tested something. */
  readonly happened = { failedWrites: 0, doneThough: 0, expiredWatches: 0, waitedTooLittle: [] as string[] };
  #faults = NO_FAULTS;
  readonly #watches = new Set<ServerResponse>();
  /** The time until which a client must wait, by request. */
  readonly #toWait = new Map<string, number>();

  private constructor(target: https.RequestOptions, folder: string, random: () => number) {
    this.#target = target;
    this.#folder = folder;
    this.#random = random;
  }

  static async start(kubeconfig: string, random: () => number): Promise<FaultyApiServer> {
    const { server, tls, headers } = await loadKubeConfig(kubeconfig);
    const { hostname, port } = new URL(server);
    const agent = new https.Agent({ keepAlive: true });
    const target: https.RequestOptions = { host: hostname, port, agent, ...tls, headers: await headers() };
    const folder = await mkdtemp(path.join(tmpdir(), 'slipway-faulty-'));
    const faulty = new FaultyApiServer(target, folder, random);
    await faulty.#listen();
    return faulty;
  }

  get kubeconfig(): string {
    return path.join(this.#folder, 'kubeconfig');
  }

  /** Injects these faults from now on, and no others. */
  fail(faults: Partial<Faults>): void {
    this.#faults = { ...NO_FAULTS, ...faults };
    for (const watch of this.#watches) this.#expireLater(watch);
  }

  /** Drops all packets for this time, as in a network partition. Connections that were open are dead afterwards. */
  async cutFor(milliseconds: number): Promise<void> {
    this.cut();
    await sleep(milliseconds);
    this.mend();
  }

  cut(): void {
    this.#cable?.cut();
  }

  mend(): void {
    this.#cable?.mend();
  }

  async close(): Promise<void> {
    this.#cable?.close();
    this.#server?.closeAllConnections();
    this.#server?.close();
    (this.#target.agent as https.Agent).destroy();
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #listen(): Promise<void> {
    const { ca, cert, key } = await makeCertificates(['127.0.0.1']);
    this.#server = https.createServer({ cert, key }, (request, response) => {
      this.#handle(request, response).catch(() => response.destroy());
    });
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#cable = await Cable.to((this.#server.address() as AddressInfo).port);
    // Any client may connect: the proxy forwards requests with the rights of the given kubeconfig.
    const text = kubeconfigOf({ url: `https://127.0.0.1:${this.#cable.port}`, ca, token: 'unused' });
    await writeFile(this.kubeconfig, text, { mode: 0o600 });
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { query, pathname } = url(request);
    if (request.method === 'GET') {
      await (query.get('watch') === 'true' ? this.#watch(request, response) : this.#pass(request, response));
      return;
    }
    // The path of a creation does not name the object.
    const key = request.method === 'POST' ? undefined : `${request.method} ${pathname}`;
    const early = key ? (this.#toWait.get(key) ?? 0) - performance.now() : 0;
    // Two processes compare their clocks in whole milliseconds.
    if (early > CLOCK_GRAIN_MS) this.happened.waitedTooLittle.push(`${key}, ${early} ms early`);
    if (this.#random() >= this.#faults.failedWrites) return await this.#pass(request, response);
    this.happened.failedWrites += 1;
    const status = REFUSALS[Math.floor(this.#random() * REFUSALS.length)] as Refusal;
    // A 429 promises that the request was not executed. After other refusals the request may have been executed.
    if (status !== 429 && this.#random() < 0.5) {
      this.happened.doneThough += 1;
      await this.#ask(request).then((answer) => answer.resume());
    } else request.resume();
    const { headers, body, waitMs } = answerOf(status, request.method as string);
    if (key) this.#toWait.set(key, performance.now() + waitMs);
    response.writeHead(status, headers).end(body);
  }

  async #watch(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.#faults.watchMs > 0 && this.#random() < REFUSED_WATCHES) {
      this.happened.expiredWatches += 1;
      const { headers, body } = answerOf(410, 'GET');
      response.writeHead(410, headers).end(body);
      return;
    }
    this.#watches.add(response);
    response.on('close', () => this.#watches.delete(response));
    this.#expireLater(response);
    await this.#pass(request, response);
  }

  #expireLater(watch: ServerResponse): void {
    if (this.#faults.watchMs === 0) return;
    const expire = () => {
      this.happened.expiredWatches += 1;
      if (!watch.headersSent) watch.writeHead(200, { 'content-type': 'application/json' });
      watch.end(`${JSON.stringify({ type: 'ERROR', object: JSON.parse(answerOf(410, 'GET').body) })}\n`);
    };
    const timer = setTimeout(expire, this.#random() * this.#faults.watchMs);
    watch.on('close', () => clearTimeout(timer));
  }

  async #pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const answer = await this.#ask(request);
    response.on('close', () => answer.destroy());
    if (response.headersSent) return;
    response.writeHead(answer.statusCode as number, withoutHop(answer.headers));
    // The headers are sent at once: a watch without events has begun all the same.
    response.flushHeaders();
    answer.on('error', () => response.destroy());
    // Forwards whole lines only, so that an injected line never splits a line of the server.
    let rest = Buffer.alloc(0);
    for await (const chunk of answer) {
      const all = Buffer.concat([rest, chunk as Buffer]);
      const end = all.lastIndexOf(0x0a) + 1;
      rest = all.subarray(end);
      if (end > 0 && !response.writableEnded && !response.write(all.subarray(0, end))) await once(response, 'drain');
    }
    if (!response.writableEnded) response.end(rest);
  }

  #ask(request: IncomingMessage): Promise<IncomingMessage> {
    const { authorization: _, host: __, ...headers } = withoutHop(request.headers);
    return new Promise((resolve, reject) => {
      const onward = https.request(
        {
          ...this.#target,
          method: request.method,
          path: request.url,
          headers: { ...headers, ...this.#target.headers },
        },
        resolve,
      );
      onward.on('error', reject);
      request.on('error', reject).pipe(onward);
    });
  }
}

function url(request: IncomingMessage) {
  const { pathname, searchParams: query } = new URL(request.url as string, 'https://api');
  return { pathname, query };
}

/** Removes the headers that apply to one connection (RFC 9110, 7.6.1). */
function withoutHop({
  connection: _,
  'keep-alive': __,
  'transfer-encoding': ___,
  ...headers
}: NodeJS.Dict<string | string[]>) {
  return headers;
}

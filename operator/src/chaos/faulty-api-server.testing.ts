/**
 * For tests: a Kubernetes API server that fails as told. It stands before a real one and hands everything on, over TLS
 * both ways. In: the real one's kubeconfig, and which faults are on. Out: a kubeconfig that leads here.
 */
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { KubeConfig } from '@kubernetes/client-node';
import { kubeconfigOf, makeCertificates } from '@slipway/apiserver';
import { Cable } from './cable.testing.js';
import { answerOf, type Refusal } from './refusals.testing.js';

export interface Faults {
  /** The share of writes that are answered with a refusal, half of them after they were really done. */
  failedWrites: number;
  /** How long a watch lasts at most until it is told that its version is too old; 0: as long as it wants. */
  watchMs: number;
}

const NO_FAULTS: Faults = { failedWrites: 0, watchMs: 0 };
const REFUSALS: Refusal[] = [409, 429, 500];
/** A share of the new watches are refused at once, as for a version that is long gone. */
const REFUSED_WATCHES = 0.25;
const CLOCK_GRAIN_MS = 2;

export class FaultyApiServer {
  readonly #random: () => number;
  readonly #target: https.RequestOptions;
  readonly #folder: string;
  #server: https.Server | undefined;
  #cable: Cable | undefined;
  /** How often each fault happened, so that a test knows that it tested something. */
  readonly happened = { failedWrites: 0, doneThough: 0, expiredWatches: 0, waitedTooLittle: [] as string[] };
  #faults = NO_FAULTS;
  readonly #watches = new Set<ServerResponse>();
  /** Until when whoever asks has been told to wait, by what was asked. */
  readonly #toWait = new Map<string, number>();

  private constructor(target: https.RequestOptions, folder: string, random: () => number) {
    this.#target = target;
    this.#folder = folder;
    this.#random = random;
  }

  static async start(kubeconfig: string, random: () => number): Promise<FaultyApiServer> {
    const config = new KubeConfig();
    config.loadFromFile(kubeconfig);
    const { hostname, port } = new URL(config.getCurrentCluster()?.server as string);
    const target: https.RequestOptions = { host: hostname, port, agent: new https.Agent({ keepAlive: true }) };
    await config.applyToHTTPSOptions(target);
    const folder = await mkdtemp(path.join(tmpdir(), 'slipway-faulty-'));
    const faulty = new FaultyApiServer(target, folder, random);
    await faulty.#listen();
    return faulty;
  }

  get kubeconfig(): string {
    return path.join(this.#folder, 'kubeconfig');
  }

  /** From now on these faults, and no others. */
  fail(faults: Partial<Faults>): void {
    this.#faults = { ...NO_FAULTS, ...faults };
    for (const watch of this.#watches) this.#expireLater(watch);
  }

  /** Nothing comes through and nobody is told, as when a network parts; then all that was open is dead. */
  async cutFor(milliseconds: number): Promise<void> {
    this.#cable?.cut();
    await sleep(milliseconds);
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
    // Who may come here is of no matter: what is asked is asked with the rights of the kubeconfig that was given.
    const text = kubeconfigOf({ url: `https://127.0.0.1:${this.#cable.port}`, ca, token: 'unused' });
    await writeFile(this.kubeconfig, text, { mode: 0o600 });
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { query, pathname } = url(request);
    if (request.method === 'GET') {
      await (query.get('watch') === 'true' ? this.#watch(request, response) : this.#pass(request, response));
      return;
    }
    // A creation's path doesn't say of what.
    const key = request.method === 'POST' ? undefined : `${request.method} ${pathname}`;
    const early = key ? (this.#toWait.get(key) ?? 0) - performance.now() : 0;
    // The clocks of two processes are told in whole milliseconds.
    if (early > CLOCK_GRAIN_MS) this.happened.waitedTooLittle.push(`${key}, ${early} ms early`);
    if (this.#random() >= this.#faults.failedWrites) return await this.#pass(request, response);
    this.happened.failedWrites += 1;
    const status = REFUSALS[Math.floor(this.#random() * REFUSALS.length)] as Refusal;
    // Who is told of too many requests may trust that nothing was done; of the others nobody can say.
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
    // A watch of which nothing is to be told yet has begun all the same.
    response.flushHeaders();
    answer.on('error', () => response.destroy());
    // Whole lines only, so that a word of ours never falls into one of its own.
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

/** Removes headers of one connection (RFC 9110, 7.6.1). */
function withoutHop({
  connection: _,
  'keep-alive': __,
  'transfer-encoding': ___,
  ...headers
}: NodeJS.Dict<string | string[]>) {
  return headers;
}

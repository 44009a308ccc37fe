/**
 * A server under test, ours or the real one. It sends raw requests, opens watches and runs kubectl, all with one
 * kubeconfig.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { KubeConfig } from '@kubernetes/client-node';

/** Responses are JSON of every shape. */
// biome-ignore lint/suspicious/noExplicitAny: a case says itself what it expects.
export type Json = any;

export interface Answer {
  code: number;
  headers: IncomingMessage['headers'];
  text: string;
  body: Json;
}

export interface RequestOptions {
  type?: string;
  headers?: Record<string, string>;
  /** Body that is sent unchanged. */
  raw?: string;
  anonymous?: boolean;
}

export interface WatchEvent {
  type: string;
  object: Json;
}

export class Target {
  readonly #agent: Agent;
  readonly #headers: Record<string, string>;
  readonly #server: string;
  readonly #bare: Agent;
  readonly config = new KubeConfig();
  /** The folder for kubectl's cache, and for files of failed edits. */
  readonly #kubectlFolder = mkdtempSync(path.join(tmpdir(), 'slipway-kubectl-'));
  /** Part of every name that a run makes, so that runs don't conflict. */
  readonly run = `c${Date.now().toString(36)}${Math.random().toString(36).slice(2, 6)}`;

  constructor(
    readonly name: string,
    readonly kubeconfig: string,
  ) {
    this.config.loadFromFile(kubeconfig);
    const cluster = this.config.getCurrentCluster();
    const user = this.config.getCurrentUser();
    const pem = (data?: string) => (data ? Buffer.from(data, 'base64') : undefined);
    const ca = pem(cluster?.caData);
    const [cert, key] = [pem(user?.certData), pem(user?.keyData)];
    this.#server = cluster?.server ?? '';
    this.#agent = new Agent({ keepAlive: true, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) });
    this.#bare = new Agent({ ...(ca && { ca }) });
    this.#headers = user?.token ? { authorization: `Bearer ${user.token}` } : {};
  }

  async send(method: string, path: string, body?: Json, options: RequestOptions = {}): Promise<Answer> {
    const text = options.raw ?? (body === undefined ? undefined : JSON.stringify(body));
    const response = await this.#open(method, path, text, options);
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    const answer = Buffer.concat(chunks).toString();
    const isJson = response.headers['content-type']?.startsWith('application/json');
    const { statusCode: code = 0, headers } = response;
    return { code, headers, text: answer, body: isJson && answer !== '' ? JSON.parse(answer) : undefined };
  }

  #open(method: string, path: string, body: string | undefined, options: RequestOptions): Promise<IncomingMessage> {
    const { type = 'application/json', anonymous } = options;
    return new Promise((resolve, reject) => {
      const headers = {
        ...(anonymous ? {} : this.#headers),
        'user-agent': 'conformance/1',
        ...(body !== undefined && { 'content-type': type, 'content-length': Buffer.byteLength(body) }),
        ...options.headers,
      };
      const agent = anonymous ? this.#bare : this.#agent;
      const outgoing = request(this.#server + path, { method, agent, headers }, resolve);
      outgoing.on('error', reject).end(body);
    });
  }

  /** Returns the events of a watch, until `enough` is true or the server ends it. */
  async watch(path: string, enough: (events: WatchEvent[]) => boolean, meanwhile?: () => Promise<unknown>) {
    const response = await this.#open('GET', path, undefined, {});
    const events: WatchEvent[] = [];
    const work = meanwhile?.();
    for await (const line of createInterface({ input: response })) {
      events.push(JSON.parse(line));
      if (enough(events)) break;
    }
    response.destroy();
    await work;
    return events;
  }

  kubectl(args: readonly string[], { input = '', env = {} } = {}): Promise<{ code: number; out: string; err: string }> {
    return new Promise((resolve) => {
      const child = execFile(
        'kubectl',
        ['--kubeconfig', this.kubeconfig, '--cache-dir', this.#kubectlFolder, ...args],
        { env: { ...process.env, TMPDIR: this.#kubectlFolder, ...env }, timeout: 60_000 },
        (error, out, err) => resolve({ code: error ? Number(error.code ?? 1) : 0, out, err }),
      );
      child.stdin?.end(input);
    });
  }

  /** Repeats the request until the response matches. Fails after half a minute. */
  async until(path: string, wanted: (answer: Answer) => boolean): Promise<Answer> {
    const end = Date.now() + 30_000;
    for (;;) {
      const answer = await this.send('GET', path);
      if (wanted(answer)) return answer;
      if (Date.now() > end) throw new Error(`${path} never became as wanted: ${answer.text.slice(0, 2000)}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  close(): void {
    this.#agent.destroy();
    this.#bare.destroy();
    rmSync(this.#kubectlFolder, { recursive: true, force: true });
  }
}

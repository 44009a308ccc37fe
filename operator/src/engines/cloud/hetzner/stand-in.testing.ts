/**
 * A local HTTP server in the place of the provider, for faults: the provider itself can't be in a test, and does not
 * fail on request. In: rules, each a response to a method and path. It keeps the requests that it received.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Pause } from './client.js';
import type { Action } from './schemas.js';

export const TOKEN = 'secret-token-of-the-test';

export interface Received {
  method: string;
  path: string;
  query: URLSearchParams;
  body: Record<string, unknown>;
  authorization: string | undefined;
}

/** Undefined: the connection is closed without a response, after the request was received. `never`: no response. */
export type Reply = { status: number; body?: unknown; headers?: Record<string, string> } | 'never' | undefined;
type Rule = { on: string; times: number; reply: (received: Received) => Reply };

export class StandIn {
  readonly received: Received[] = [];
  /** The pauses of the client, in milliseconds. They end at once. */
  readonly pauses: number[] = [];
  readonly folder = mkdtempSync(path.join(tmpdir(), 'slipway-cloud-'));
  readonly tokenFile = path.join(this.folder, 'token');
  readonly #server = createServer((request, response) => void this.#handle(request, response));
  #rules: Rule[] = [];

  readonly pause: Pause = async (ms, signal) => {
    signal.throwIfAborted();
    this.pauses.push(ms);
  };

  static async start(): Promise<StandIn> {
    const standIn = new StandIn();
    writeFileSync(standIn.tokenFile, `${TOKEN}\n`);
    standIn.#server.listen(0, '127.0.0.1');
    await once(standIn.#server, 'listening');
    return standIn;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  /** Replies to requests `METHOD /path`, at most `times`. Rules that were added later come first. */
  on(on: string, reply: Reply | ((received: Received) => Reply), times = Number.POSITIVE_INFINITY): void {
    this.#rules.unshift({ on, times, reply: typeof reply === 'function' ? reply : () => reply });
  }

  /** Returns the received requests in the form `METHOD /path`. */
  get calls(): string[] {
    return this.received.map(({ method, path: at }) => `${method} ${at}`);
  }

  reset(): void {
    this.#rules = [];
    this.received.length = 0;
    this.pauses.length = 0;
    writeFileSync(this.tokenFile, `${TOKEN}\n`);
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
    rmSync(this.folder, { recursive: true });
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks = await request.toArray();
    const url = new URL(request.url ?? '', this.url);
    const received = {
      method: request.method ?? '',
      path: url.pathname.replace(/^\/v1/, ''),
      query: url.searchParams,
      body: chunks.length > 0 ? JSON.parse(Buffer.concat(chunks).toString()) : {},
      authorization: request.headers.authorization,
    };
    this.received.push(received);
    const rule = this.#rules.find(({ on, times }) => times > 0 && on === `${received.method} ${received.path}`);
    if (rule) rule.times -= 1;
    const reply: Reply = rule ? rule.reply(received) : failure(404, 'not_found');
    if (reply === 'never') return;
    if (!reply) return void request.socket.destroy();
    const body = reply.body === undefined ? '' : JSON.stringify(reply.body);
    response.writeHead(reply.status, { 'content-type': 'application/json', ...reply.headers });
    response.end(body);
  }
}

export const failure = (status: number, code: string, more: { message?: string; fields?: string[] } = {}) => ({
  status,
  body: {
    error: {
      code,
      message: more.message ?? 'a fault',
      details: { fields: more.fields?.map((name) => ({ name })) ?? [] },
    },
  },
});

/** Returns the response to a list, of one page. */
export const listOf = (kind: string, items: unknown[]) => ({
  status: 200,
  body: { [kind]: items, meta: { pagination: { next_page: null } } },
});

export const action = (status: 'running' | 'success' | 'error', error: Action['error'] = null): Action => ({
  id: 7,
  command: 'do_it',
  status,
  error,
});

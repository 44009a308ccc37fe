/**
 * Serves the logs of one machine's units to the API, at a Unix socket in a folder that only the platform's account can
 * enter. In: `GET /<unit>?limit=…&since=…&level=…`. Out: lines in JSON; 400 for an invalid request, and 503 if the
 * machine does not respond or too many read at once.
 */
import { rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { MACHINE_UNITS, type MachineUnit } from '@slipway/crds';
import { LAST_TIME, UNIT_LOG_LEVELS, UNIT_LOG_LINES, type UnitLogQuery } from '@slipway/installation';
import { ConcurrencyLimit } from '@slipway/program';
import type { Logger } from 'pino';
import { readUnitLog } from './unit-logs.js';
import type { CommandRunner } from './units.js';

/** Reads at once. sshd allows ten commands on a connection, which the operator needs itself. */
const AT_ONCE = { most: 2, waiting: 6 };
const MOST_CONNECTIONS = 32;

export class LogSocket {
  readonly #limit = new ConcurrencyLimit(AT_ONCE);
  readonly #stop = new AbortController();
  readonly #server: Server;

  private constructor(
    private readonly machine: CommandRunner,
    private readonly log: Logger,
  ) {
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error: unknown) => {
        if (response.destroyed) return;
        // A command's message may quote the machine, which is not trusted.
        this.log.warn({ reason: (error as { kind?: string }).kind ?? (error as Error).name }, 'unit log not read');
        send(response, 503);
      });
    });
    this.#server.maxConnections = MOST_CONNECTIONS;
  }

  /** A leftover at the path is replaced. */
  static async open(machine: CommandRunner, { path, log }: { path: string; log: Logger }): Promise<LogSocket> {
    const socket = new LogSocket(machine, log);
    await rm(path, { force: true });
    await new Promise<void>((resolve, reject) => {
      socket.#server.once('error', reject).listen(path, resolve);
    });
    return socket;
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error('The socket of the logs is closed.'));
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer({ method, url = '' }: IncomingMessage, response: ServerResponse): Promise<void> {
    const request = method === 'GET' ? requestOf(url) : undefined;
    if (!request) return send(response, 400);
    const left = new AbortController();
    response.once('close', () => left.abort(new Error('The API closed the connection.')));
    const signal = AbortSignal.any([this.#stop.signal, left.signal]);
    const read = () => readUnitLog(this.machine, request.unit, request.query, signal);
    const lines = await this.#limit.run('', read, signal);
    send(response, 200, JSON.stringify(lines));
  }
}

function send(response: ServerResponse, status: number, body = ''): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(body);
}

/** Returns undefined for an invalid request. The API has checked it, but commands are built from it here. */
export function requestOf(url: string): { unit: MachineUnit; query: UnitLogQuery } | undefined {
  const [path = '', text = ''] = url.split('?');
  const unit = MACHINE_UNITS.find((name) => path === `/${name}`);
  const values = new URLSearchParams(text);
  const limit = numberOf(values.get('limit'), UNIT_LOG_LINES.most);
  const since = values.has('since') ? numberOf(values.get('since'), LAST_TIME) : undefined;
  const level = UNIT_LOG_LEVELS.find((name) => name === values.get('level'));
  const isValid = (since !== undefined || !values.has('since')) && (level !== undefined || !values.has('level'));
  return unit && limit && isValid ? { unit, query: { limit, since, level } } : undefined;
}

function numberOf(text: string | null, most: number): number | undefined {
  const number = /^\d{1,15}$/.test(text ?? '') ? Number(text) : Number.NaN;
  return number <= most ? number : undefined;
}

/**
 * Control server for the API, which reads logs of projects. Routes: `GET /<ref>/<service>?level=&since=&limit=` → an
 * array of lines, or 404. Only the platform's account can connect to the Unix socket.
 */
import { chmod } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { isStoredLog, SERVICE_LOG_LEVELS } from '@slipway/installation';
import { listen } from '@slipway/program';
import type { Logger } from 'pino';
import type { ProjectLogs } from './project-logs.js';

const MOST_LINES = 1_000;

export async function startLogsControl(socket: string, logs: ProjectLogs, log: Logger): Promise<Server> {
  const server = createServer((incoming, outgoing) => {
    linesFor(logs, incoming).then(
      (lines) => send(outgoing, lines ? 200 : 404, lines ?? { message: 'no such project or service' }),
      (error: unknown) => {
        log.error({ err: error }, 'request for logs failed');
        send(outgoing, 500, { message: 'The request failed; the data plane’s log has the reason' });
      },
    );
  });
  await listen(server, socket);
  await chmod(socket, 0o600);
  return server;
}

async function linesFor(logs: ProjectLogs, { url = '/', method }: IncomingMessage) {
  const { pathname, searchParams } = new URL(url, 'http://control');
  const [ref = '', service = ''] = pathname.split('/').slice(1);
  if (method !== 'GET' || !isStoredLog(service)) return undefined;
  const level = searchParams.get('level');
  return logs.read(ref, service, {
    level: SERVICE_LOG_LEVELS.find((name) => name === level),
    since: Number(searchParams.get('since') ?? 0) || 0,
    limit: Math.min(Number(searchParams.get('limit') ?? 100) || 100, MOST_LINES),
  });
}

function send(outgoing: ServerResponse, status: number, body: unknown): void {
  outgoing.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
}

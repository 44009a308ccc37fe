/** Follows a log over a real connection, as a client of server-sent events does. */
import { type IncomingMessage, request } from 'node:http';
import type { Deploys } from './testing.js';

interface LogEvent {
  event: string;
  id: number;
  data: { text?: string; phase?: string; bytes?: number };
}

export class LogReader {
  text = '';
  ended = false;
  constructor(readonly response: IncomingMessage) {
    response.setEncoding('utf8').on('data', (chunk: string) => {
      this.text += chunk;
    });
    response.on('close', () => {
      this.ended = true;
    });
  }
  get events(): LogEvent[] {
    const blocks = this.text.split('\n\n').slice(0, -1);
    return blocks.filter((block) => !block.startsWith(':')).map(parse);
  }
  /** Returns the output that has arrived. */
  get output(): string {
    return this.events.map(({ data }) => data.text ?? '').join('');
  }
}

function parse(block: string): LogEvent {
  const [, event, id, data] = /^event: (\w+)\nid: (\d+)\ndata: (.*)$/.exec(block) ?? [];
  return { event: event as string, id: Number(id), data: JSON.parse(data as string) };
}

export function followLog(
  { api, owner }: Deploys,
  path: string,
  headers: Record<string, string> = {},
): Promise<LogReader> {
  const sent = { authorization: `Bearer ${owner.token}`, accept: 'text/event-stream', ...headers };
  const options = { socketPath: api.settings.listen, path, headers: sent };
  return new Promise((resolve, reject) => {
    request({ ...options, agent: false }, (response) => resolve(new LogReader(response)))
      .on('error', reject)
      .end();
  });
}

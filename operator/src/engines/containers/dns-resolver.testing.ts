/** A resolver for tests, in place of the one of a machine with an internet: it responds by UDP and TCP. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** IPv4 addresses by name, or a response of other bytes to a query. */
export type Zone = Record<string, string | ((query: Buffer) => Buffer[])>;

const HEADER = 12;

export async function startResolver(zone: Zone) {
  const queries: string[] = [];
  const udp = createSocket('udp4');
  const tcp = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (bytes: Buffer) => {
      for (const response of responsesTo(bytes.subarray(2), zone, queries)) {
        const length = Buffer.alloc(2);
        length.writeUInt16BE(response.length);
        socket.write(Buffer.concat([length, response]));
      }
    });
  });
  udp.on('message', (query, { port, address }) => {
    for (const response of responsesTo(query, zone, queries)) udp.send(response, port, address);
  });
  tcp.listen(0, '127.0.0.1');
  await once(tcp, 'listening');
  const { port } = tcp.address() as { port: number };
  udp.bind(port, '127.0.0.1');
  await once(udp, 'listening');
  const close = () => {
    udp.close();
    tcp.close();
  };
  return { address: `127.0.0.1:${port}`, queries, close };
}

/** Returns a response with an address for the name in the question. Further `flags` are of the header. */
export function responseWith(query: Buffer, address: string, flags = 0): Buffer {
  const response = Buffer.from(query.subarray(0, endOfQuestion(query)));
  response.writeUInt16BE(0x8180 | flags, 2);
  response.writeUInt16BE(1, 6);
  response.writeUInt32BE(0, 8);
  const data = address.includes(':')
    ? Buffer.from(
        address
          .split(':')
          .map((group) => group.padStart(4, '0'))
          .join(''),
        'hex',
      )
    : Buffer.from(address.split('.').map(Number));
  const record = Buffer.from([0xc0, HEADER, 0, data.length === 4 ? 1 : 28, 0, 1, 0, 0, 0, 9, 0, data.length]);
  return Buffer.concat([response, record, data]);
}

function responsesTo(query: Buffer, zone: Zone, queries: string[]): Buffer[] {
  const name = nameOf(query);
  queries.push(name);
  const found = zone[name];
  if (typeof found === 'function') return found(query);
  if (found !== undefined && typeOf(query) === 1) return [responseWith(query, found)];
  const empty = Buffer.from(query.subarray(0, endOfQuestion(query)));
  empty.writeUInt16BE(found === undefined ? 0x8183 : 0x8180, 2);
  empty.writeUInt32BE(0, 8);
  return [empty];
}

function nameOf(query: Buffer): string {
  const labels: string[] = [];
  for (let at = HEADER; query[at]; at += 1 + (query[at] as number)) {
    labels.push(query.toString('latin1', at + 1, at + 1 + (query[at] as number)));
  }
  return labels.join('.').toLowerCase();
}

const endOfQuestion = (query: Buffer): number => query.indexOf(0, HEADER) + 5;
const typeOf = (query: Buffer): number => query.readUInt16BE(query.indexOf(0, HEADER) + 1);

/** Forwards the Unix socket that ssh of a clone uses to the egress proxy. In: the proxy's address. */

import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { listenOptions } from '@slipway/program';

export interface Forwarder {
  close(): void;
}

export async function forwardTo(egressUrl: string, place: string): Promise<Forwarder> {
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (inside) => {
    const outside = connect({ ...listenOptions(new URL(egressUrl).host), allowHalfOpen: true });
    join(inside, outside, open);
    join(outside, inside, open);
  });
  await once(server.listen(place), 'listening');
  return {
    close: () => {
      server.close();
      for (const socket of open) socket.destroy();
    },
  };
}

function join(from: Socket, to: Socket, open: Set<Socket>): void {
  open.add(from);
  from.pipe(to);
  from.on('error', () => to.destroy());
  from.on('close', () => {
    open.delete(from);
    to.destroy();
  });
}

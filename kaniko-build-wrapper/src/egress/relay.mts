/**
 * Runs as the first process of a sealed build. Forwards a port on loopback to a Unix socket, so that programs reach the
 * egress proxy through HTTP_PROXY. In: the path of the socket, a port, and a command. Runs the command and exits with
 * its exit code. The command's errors go to the same stream as its output, so that they stay in order.
 */
import { spawn } from 'node:child_process';
import { connect, createServer, type Socket } from 'node:net';
import { constants } from 'node:os';

const [socket = '', port = '', command = '', ...args] = process.argv.slice(2);

const server = createServer({ allowHalfOpen: true }, (inside) => {
  const outside = connect({ path: socket, allowHalfOpen: true });
  join(inside, outside);
  join(outside, inside);
});
server.listen(Number(port), '127.0.0.1', () => {
  const child = spawn(command, args, { stdio: ['ignore', 1, 1] });
  child.once('error', ({ message }) => {
    process.stderr.write(`${command} cannot be started: ${message}\n`);
    process.exit(127);
  });
  child.once('exit', (code, signal) => process.exit(code ?? 128 + (signal ? constants.signals[signal] : 0)));
});

function join(from: Socket, to: Socket): void {
  from.pipe(to);
  from.on('error', () => to.destroy());
  from.on('close', () => to.destroy());
}

/**
 * Launcher process: starts processes as requested on its channel, and forwards their output. Exits when its channel
 * closes.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { type News, type Order, OUTPUTS } from './messages.js';

const children = new Map<number, ChildProcess>();
// Errors are ignored, because this process exits when the channel closes.
const tell = (news: News) => void process.send?.(news, () => undefined);

process.on('message', (order: Order) => {
  if (order.order === 'start') startOrSay(order);
  else if (order.order === 'read') children.get(order.id)?.[order.output]?.resume();
  else children.get(order.id)?.kill('SIGKILL');
});
process.once('disconnect', () => process.exit());

/**
 * Starts a process or reports the failure. A command that the system rejects at once, for lack of memory or too many
 * arguments, affects no other.
 */
function startOrSay(order: Extract<Order, { order: 'start' }>): void {
  try {
    start(order);
  } catch (error) {
    tell({ news: 'failed', id: order.id, message: (error as Error).message });
  }
}

function start({ id, command, args, cwd, env, account, input }: Extract<Order, { order: 'start' }>): void {
  const stdin = input === undefined ? 'ignore' : 'pipe';
  const child = spawn(command, args, { cwd, env, stdio: [stdin, 'pipe', 'pipe'], ...account });
  children.set(id, child);
  if (child.pid !== undefined) tell({ news: 'started', id, pid: child.pid });
  child.stdin?.on('error', () => undefined).write(input);
  for (const output of OUTPUTS) {
    const stream = child[output]?.pause();
    stream?.on('data', (chunk: Buffer) => {
      stream.pause();
      tell({ news: 'output', id, output, chunk });
    });
    stream?.once('end', () => tell({ news: 'output', id, output, chunk: null }));
  }
  child.once('error', ({ message }) => {
    children.delete(id);
    tell({ news: 'failed', id, message });
  });
  child.once('exit', () => tell({ news: 'exited', id }));
  child.once('close', (code, signal) => {
    if (children.delete(id)) tell({ news: 'closed', id, code, signal });
  });
}

/**
 * Kills the process with SIGKILL at its KILL_AT-th change of external state, for tests. Loaded before an operator by
 * `node --import`. It counts the moments before and after each write to the Kubernetes API, except the lease's, and
 * before and after each statement to Postgres.
 */
import { subscribe } from 'node:diagnostics_channel';
import pg from 'pg';

const killAt = Number(process.env.KILL_AT);
let points = 0;

function point(): void {
  points += 1;
  if (points === killAt) process.kill(process.pid, 'SIGKILL');
}

interface Traffic {
  request: { method: string; path: string };
}
const isWrite = ({ request }: Traffic) =>
  request.method !== 'GET' && request.method !== 'HEAD' && !request.path.includes('/leases');

subscribe('undici:request:create', (message) => {
  if (isWrite(message as Traffic)) point();
});
subscribe('undici:request:headers', (message) => {
  if (isWrite(message as Traffic)) point();
});

const query = pg.Client.prototype.query as (this: pg.Client, ...parameters: unknown[]) => unknown;
const counted = function (this: pg.Client, ...parameters: unknown[]): unknown {
  point();
  const result = query.apply(this, parameters);
  if (result instanceof Promise) result.then(point, point);
  return result;
};
pg.Client.prototype.query = counted as typeof pg.Client.prototype.query;

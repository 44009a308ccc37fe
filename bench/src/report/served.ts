/**
 * Reports responses of one size, of several servers that were measured together. In: their measures. Out: a table, and
 * the ratio of two of them with its target.
 */
import type { Table, Target } from '../bench.js';
import { type Measured, ratioOf } from '../measure/rounds.js';
import { decimals, whole } from './table.js';

const MB = 1e6;

export interface Served {
  size: { name: string; bytes: number; connections: number };
  results: Measured[];
}

export const servedTable = ({ size, results }: Served): Table => ({
  title: `${size.name}, ${size.connections} at once`,
  head: ['who', 'a second', 'MB/s', 'spread', 'p50 ms', 'p95 ms', 'CPU ms each'],
  rows: results.map(({ name, perSecond, p50 = Number.NaN, p95 = Number.NaN, cpuMicros }) => [
    name,
    whole(perSecond.median),
    whole((perSecond.median * size.bytes) / MB),
    `${whole(perSecond.lowest)} – ${whole(perSecond.highest)}`,
    decimals(p50, 1),
    decimals(p95, 1),
    decimals((cpuMicros.server ?? 0) / 1000),
  ]),
});

/** The rate of `who`, as a multiple of the rate of `than`. */
export const servedTarget = ({ size, results }: Served, who: string, than: string, target: number): Target => ({
  what: `${size.name}: ${who} ÷ ${than}`,
  value: ratioOf(results, who, than).ratio.median,
  target,
  bound: 'at least',
});

import type { Table } from '../bench.js';
import type { Measured } from '../measure/rounds.js';
import { decimals, whole } from '../report/table.js';
import type { OperationResult } from './contest.js';
import { SLIPWAY } from './stage.js';

/**
 * Returns one row for each request and contestant: speed, spread, how many times as fast Slipway is, and the processor
 * time of a request.
 */
export function restTable(results: OperationResult[]): Table {
  const head = [
    'request',
    'who',
    'requests/s',
    'spread',
    'p50 ms',
    'p95 ms',
    'slipway ÷ it',
    'CPU µs server',
    'CPU µs Postgres',
  ];
  const rows = results.flatMap((result) => [
    ...result.measured.map((measured, index) => [index === 0 ? result.operation : '', ...cells(measured, result)]),
    ...result.unable.map(({ name }) => ['', name, 'n/a']),
  ]);
  return { title: 'REST under row-level security', head, rows };
}

function cells(measured: Measured, { poolSizes, ratios }: OperationResult): string[] {
  const { name, perSecond, p50, p95, cpuMicros } = measured;
  const ratio = ratios.find(({ of, to }) => of === SLIPWAY && to === name)?.ratio.median;
  const optional = (value: number | undefined, digits: number) => (value === undefined ? '' : decimals(value, digits));
  return [
    poolSizes[name] === undefined ? name : `${name} (pool of ${poolSizes[name]})`,
    whole(perSecond.median),
    `${whole(perSecond.lowest)} – ${whole(perSecond.highest)}`,
    optional(p50, 1),
    optional(p95, 1),
    optional(ratio, 2),
    optional(cpuMicros.server, 0),
    optional(cpuMicros.postgres, 0),
  ];
}

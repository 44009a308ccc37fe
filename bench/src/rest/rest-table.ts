import type { Table } from '../bench.js';
import { decimals, whole } from '../report/table.js';
import type { OperationResult } from './rest.js';

/** One row for each request and contestant: how fast, how steady, how much faster the first is, and what a request cost. */
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
  const rows = results.flatMap(({ operation, poolSize, measured, ratios }) =>
    measured.map(({ name, perSecond, p50, p95, cpuMicros }, index) => {
      const ratio = ratios.find(({ of, to }) => of === measured[0]?.name && to === name)?.ratio.median;
      const optional = (value: number | undefined, digits: number) =>
        value === undefined ? '' : decimals(value, digits);
      return [
        index === 0 ? operation : '',
        name.startsWith('bare') ? `${name} (pool of ${poolSize})` : name,
        whole(perSecond.median),
        `${whole(perSecond.lowest)} – ${whole(perSecond.highest)}`,
        optional(p50, 1),
        optional(p95, 1),
        optional(ratio, 2),
        optional(cpuMicros.server, 0),
        optional(cpuMicros.postgres, 0),
      ];
    }),
  );
  return { title: 'REST under row-level security', head, rows };
}

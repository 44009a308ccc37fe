/**
 * Benchmark of REST requests of one user under row-level security: Slipway, the bare server, @supabase/lite,
 * postrust-server and pgbench, in turn. All but lite run on the same project's database in the same Postgres, as the
 * same login.
 */
import { type Bench, type BenchResult, chosen, closing } from '../bench.js';
import { measure, type OperationResult } from './contest.js';
import { OPERATIONS } from './operations.js';
import { restTable } from './rest-table.js';
import { type Stage, setUp } from './stage.js';

export const rest: Bench = closing(async (context, closers) => {
  const operations = chosen(OPERATIONS, ({ name }) => name, context.only);
  const stage = await setUp(context, closers);
  const results: OperationResult[] = [];
  for (const operation of operations) results.push(await measure(operation, stage, context));
  return summarise(results, stage);
});

function summarise(results: OperationResult[], { missing, statements }: Stage): BenchResult {
  const targets = results.flatMap(({ operation, ratios }) =>
    ratios.flatMap(({ of, to, ratio, target }) =>
      target === undefined
        ? []
        : [{ what: `${operation}: ${of} ÷ ${to}`, value: ratio.median, target, bound: 'at least' as const }],
    ),
  );
  const wrong = results.flatMap(({ operation, unable }) =>
    unable.map(({ name, reason }) => `${name}, ${operation}: the response was wrong: ${reason}`),
  );
  const skipped = [...missing, ...wrong];
  return { tables: [restTable(results)], targets, skipped, data: { results, statements: textsOf(statements) } };
}

/** The values are tokens and keys of a deleted platform, which say nothing. */
const textsOf = (statements: Stage['statements']) =>
  Object.fromEntries(Object.entries(statements).map(([name, list]) => [name, list.map(({ text }) => text)]));

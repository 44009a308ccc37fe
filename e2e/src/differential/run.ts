/**
 * Sends each case to both sides, starting with the same rows. Reports differences of the responses and of the resulting
 * rows.
 */
import type { Case } from './case.js';
import { type Difference, differencesOf, type RecordedResponse } from './compare.js';
import { ROWS, TABLES } from './schema.js';
import { ask, type Side } from './side.js';

export interface Outcome {
  case: Case;
  ours: RecordedResponse;
  lite: RecordedResponse;
  differences: Difference[];
}

export async function runAll(ours: Side, lite: Side, cases: readonly Case[]): Promise<Outcome[]> {
  const sides = [ours, lite] as const;
  const outcomes: Outcome[] = [];
  let isFresh = false;
  for (const each of cases) {
    if (each.service === 'rest' && !isFresh) await Promise.all(sides.map(({ database }) => database.query(ROWS)));
    const [left, right] = (await Promise.all(sides.map((side) => ask(side, each)))) as [
      RecordedResponse,
      RecordedResponse,
    ];
    const writes = each.service === 'rest' && !['GET', 'HEAD', 'OPTIONS'].includes(each.method);
    isFresh = !writes && (isFresh || each.service === 'rest') && !each.path.startsWith('/rpc/');
    const rows = writes ? await Promise.all(sides.map(rowsOf)) : [undefined, undefined];
    const differences = differencesOf(left, right);
    if (rows[0] !== rows[1]) differences.push({ at: 'rows', ours: rows[0], lite: rows[1] });
    outcomes.push({ case: each, ours: left, lite: right, differences });
  }
  return outcomes;
}

/** Query for all rows that requests can write, always in the same order. */
const EVERYTHING = `select json_build_object(${TABLES.map(
  (table) => `'${table}', (select coalesce(json_agg(r order by r::text), '[]') from ${table} r)`,
).join(', ')})::text as rows`;

async function rowsOf({ database }: Side): Promise<string> {
  const { rows } = await database.query(EVERYTHING);
  return (rows as { rows: string }[])[0]?.rows ?? '';
}

/**
 * Converts the texts of a query's result in steps, because 8 MiB of it take up to a second of processor time. In: the
 * outcome of each statement. Out: JSON in pieces, or values.
 */
import { runInTurns, type Steps } from '@slipway/program';
import type { StatementOutcome } from '../sql/bounded-query.js';
import type { QueryOutcome } from '../sql/query-connection.js';
import type { StatementResult } from './query.schema.js';
import { jsonText, jsonValue, typeName } from './values.js';

const STEP_CHARACTERS = 32 * 1024;
/** Cost of a cell in addition to the characters of its text, in characters. */
const CELL_COST = 50;

/** Members of the last statement, and those of each statement under `results`. */
export const resultJson = (outcome: QueryOutcome, milliseconds: number): Promise<Buffer[]> =>
  runInTurns(piecesOf(outcome, milliseconds));

function* piecesOf({ statements, typeNames }: QueryOutcome, milliseconds: number): Steps<Buffer[]> {
  const text = (json: string) => Buffer.from(json);
  const last = statements.at(-1);
  const lastMembers = last ? yield* membersOf(last, typeNames) : [text(NO_STATEMENT)];
  const pieces = [text('{'), ...lastMembers, text(`,"duration_ms":${rounded(milliseconds)},"results":[`)];
  let small: Buffer[] = [];
  let smallBytes = 0;
  for (const [at, statement] of statements.entries()) {
    const members = statement === last ? lastMembers : yield* membersOf(statement, typeNames);
    small.push(text(at > 0 ? ',{' : '{'), ...members, text('}'));
    smallBytes += members.reduce((bytes, { length }) => bytes + length, 0);
    if (smallBytes < STEP_CHARACTERS) continue;
    // Thousands of statements may have short results, and each piece is written separately.
    pieces.push(Buffer.concat(small));
    small = [];
    smallBytes = 0;
    yield;
  }
  return [...pieces, ...small, text(']}')];
}

/** Returns the result of the last statement as values. */
export async function lastResult({ statements, typeNames }: QueryOutcome): Promise<StatementResult> {
  const last = statements.at(-1);
  if (!last) return { columns: [], rows: [], row_count: 0, command: '', truncated: false };
  return { columns: columnsOf(last, typeNames), rows: await runInTurns(rowsOf(last)), ...countsOf(last) };
}

const NO_STATEMENT = '"columns":[],"rows":[],"row_count":0,"command":"","truncated":false';

const rounded = (milliseconds: number) => Math.round(milliseconds * 100) / 100;

const countsOf = ({ fields, rows, command, count, truncated }: StatementOutcome) => ({
  row_count: fields.length > 0 ? rows.length : count,
  command,
  truncated,
});

const columnsOf = ({ fields }: StatementOutcome, names: Map<number, string>) =>
  distinct(fields.map(({ name }) => name)).map((name, index) => {
    const oid = fields[index]?.dataTypeID as number;
    return { name, type: typeName(oid) ?? names.get(oid) ?? `oid ${oid}` };
  });

function* rowsOf({ fields, rows }: StatementOutcome): Steps<Record<string, unknown>[]> {
  const names = distinct(fields.map(({ name }) => name));
  const oids = fields.map(({ dataTypeID }) => dataTypeID);
  const made: Record<string, unknown>[] = [];
  let left = STEP_CHARACTERS;
  for (const row of rows) {
    const members: [string, unknown][] = [];
    for (const [index, text] of row.entries()) {
      members.push([names[index] as string, jsonValue(text, oids[index] as number)]);
      left -= CELL_COST + (text?.length ?? 0);
      if (left > 0) continue;
      yield;
      left = STEP_CHARACTERS;
    }
    made.push(Object.fromEntries(members));
  }
  return made;
}

/** Returns the JSON members of a statement, without brackets. */
function* membersOf(statement: StatementOutcome, typeNames: Map<number, string>): Steps<Buffer[]> {
  const columns = columnsOf(statement, typeNames);
  const names = columns.map(({ name }, index) => `${index > 0 ? ',' : ''}${JSON.stringify(name)}:`);
  const oids = statement.fields.map(({ dataTypeID }) => dataTypeID);
  const pieces: Buffer[] = [];
  let waiting = `"columns":${JSON.stringify(columns)},"rows":[`;
  const add = (text: string) => {
    waiting += text;
    if (waiting.length < STEP_CHARACTERS) return;
    pieces.push(Buffer.from(waiting));
    waiting = '';
  };
  let left = STEP_CHARACTERS;
  for (const [at, row] of statement.rows.entries()) {
    add(at > 0 ? ',{' : '{');
    for (const [index, text] of row.entries()) {
      add(names[index] as string);
      for (const part of jsonText(text, oids[index] as number)) {
        add(part);
        left -= CELL_COST + part.length;
        if (left > 0) continue;
        yield;
        left = STEP_CHARACTERS;
      }
    }
    add('}');
  }
  const { row_count, command, truncated } = countsOf(statement);
  add(`],"row_count":${row_count},"command":${JSON.stringify(command)},"truncated":${truncated}`);
  return [...pieces, Buffer.from(waiting)];
}

/** Numbers repeated names, so that no column is lost from a row. */
function distinct(names: string[]): string[] {
  const used = new Set(names);
  const seen = new Set<string>();
  const numbers = new Map<string, number>();
  return names.map((name) => {
    let free = name;
    let number = numbers.get(name) ?? 2;
    if (seen.has(name)) {
      while (used.has(`${name}_${number}`)) number += 1;
      free = `${name}_${number}`;
      numbers.set(name, number + 1);
    }
    seen.add(free);
    used.add(free);
    return free;
  });
}

import Type from 'typebox';

export const QueryBody = Type.Object(
  {
    sql: Type.String({
      minLength: 1,
      maxLength: 1_000_000,
      pattern: '^[^\\u0000]*$',
      description:
        'One statement, or several with semicolons, which are one transaction unless they control it themselves.',
      examples: ['select id, title from todos order by id'],
    }),
  },
  { $id: 'Query', additionalProperties: false },
);
export type QueryBody = Type.Static<typeof QueryBody>;

const result = {
  columns: Type.Array(
    Type.Object({
      name: Type.String({ description: 'The key in each row: a repeated name gets _2, _3, … appended.' }),
      type: Type.String({ description: "PostgreSQL's name of the type." }),
    }),
    { description: 'The columns in order; empty for a statement that returns none.' },
  ),
  rows: Type.Array(Type.Record(Type.String(), Type.Any()), {
    description:
      'Numbers that a double does not hold exactly are strings, as are NaN and infinities; ' +
      'json and arrays are JSON, but text where a value is larger than 1 MiB, ' +
      'or an array than 16 KiB (64 KiB without quotes or dimensions); bytea is hex after \\x; times are ISO 8601.',
  }),
  row_count: Type.Integer({ description: 'Rows returned here, or changed by the statement.' }),
  command: Type.String({ description: 'SELECT, INSERT, CREATE TABLE, …' }),
  truncated: Type.Boolean({
    description: 'True if the result was truncated to 1000 rows or 8 MiB.',
  }),
};

export const StatementResult = Type.Object(result, { $id: 'StatementResult', additionalProperties: false });
export type StatementResult = Type.Static<typeof StatementResult>;

export const QueryResult = Type.Object(
  {
    ...result,
    duration_ms: Type.Number({ description: 'Duration, including the connection.' }),
    results: Type.Array(StatementResult, {
      description: 'Results of each statement; the members above are those of the last one.',
    }),
  },
  { $id: 'QueryResult', additionalProperties: false },
);
export type QueryResult = Type.Static<typeof QueryResult>;

const statement: StatementResult = {
  columns: [
    { name: 'id', type: 'int8' },
    { name: 'title', type: 'text' },
  ],
  rows: [{ id: 1, title: 'Write the docs' }],
  row_count: 1,
  command: 'SELECT',
  truncated: false,
};
export const EXAMPLE: QueryResult = { ...statement, duration_ms: 3.2, results: [statement] };

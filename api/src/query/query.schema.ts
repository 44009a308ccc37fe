import Type from 'typebox';

export const QueryBody = Type.Object(
  {
    sql: Type.String({
      minLength: 1,
      maxLength: 1_000_000,
      pattern: '^[^\\u0000]*$',
      description:
        'One statement, or several with semicolons, which then are one transaction unless they say otherwise.',
      examples: ['select id, title from todos order by id'],
    }),
  },
  { $id: 'Query', additionalProperties: false },
);
export type QueryBody = Type.Static<typeof QueryBody>;

const result = {
  columns: Type.Array(
    Type.Object({
      name: Type.String({ description: 'The key in each row: a name that comes again has _2, _3, … after it.' }),
      type: Type.String({ description: "PostgreSQL's name of the type." }),
    }),
    { description: 'In order; empty for a statement that returns none.' },
  ),
  rows: Type.Array(Type.Record(Type.String(), Type.Any()), {
    description:
      'Numbers that a double does not hold exactly are strings, as are NaN and infinities; json and arrays are JSON; bytea is hex after \\x; times are ISO 8601.',
  }),
  row_count: Type.Integer({ description: 'Rows returned here, or changed by the statement.' }),
  command: Type.String({ description: 'SELECT, INSERT, CREATE TABLE, …' }),
  truncated: Type.Boolean({
    description: 'Whether there were more rows than the 1000, or the 8 MiB, that are answered.',
  }),
};

export const StatementResult = Type.Object(result, { $id: 'StatementResult', additionalProperties: false });
export type StatementResult = Type.Static<typeof StatementResult>;

export const QueryResult = Type.Object(
  {
    ...result,
    duration_ms: Type.Number({ description: 'How long it took, connecting included.' }),
    results: Type.Array(StatementResult, { description: 'Of each statement; the last one is also answered above.' }),
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

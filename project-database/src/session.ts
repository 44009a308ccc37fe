/** A Postgres connection for this package. `pg`'s Client and Pool both match it. */
export interface Session {
  query(sql: string): Promise<{ rows: Record<string, unknown>[] }>;
}

/** Quotes a name for SQL. */
export const identifier = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** Quotes a string for SQL with standard_conforming_strings. */
export const literal = (value: string) => `'${value.replaceAll("'", "''")}'`;

/** Joins statements into one transaction, in one round trip. */
export const transaction = (statements: readonly string[]) => ['BEGIN', ...statements, 'COMMIT'].join(';\n');

/** A Postgres connection as this package uses it; `pg`'s Client and Pool both are one. */
export interface Session {
  query(sql: string): Promise<{ rows: Record<string, unknown>[] }>;
}

/** A name as SQL takes it. */
export const identifier = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** A string as SQL takes it under standard_conforming_strings. */
export const literal = (value: string) => `'${value.replaceAll("'", "''")}'`;

/** Several statements as one: all or nothing, in one round trip. */
export const transaction = (statements: readonly string[]) => ['BEGIN', ...statements, 'COMMIT'].join(';\n');

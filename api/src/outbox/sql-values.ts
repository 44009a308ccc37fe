/** Values of raw statements, which MikroORM neither reads nor writes as its entities' columns. */

/** Returns the text of a PostgreSQL array, because MikroORM would write an array as a list of values. */
export const sqlArray = (values: readonly (string | number)[]): string =>
  `{${values.map((value) => `"${String(value).replaceAll(/["\\]/g, '\\$&')}"`).join(',')}}`;

/** Reads a `timestamptz`, which MikroORM returns as text. */
export const sqlTime = (text: string): Date => new Date(text);
export const sqlTimeOrNull = (text: string | null): Date | null => (text === null ? null : sqlTime(text));

/** Runs work of several steps in one transaction. Each step may use the results of earlier ones. */
import type { Pool, Statement } from '../../sql/pool.js';

export interface Work {
  run(statements: readonly Statement[]): Promise<void>;
  /** Runs a statement. Returns the JSON value of its first row. */
  first<T>(statement: Statement): Promise<T | undefined>;
}

export const inTransaction = <T>(pool: Pool, work: (steps: Work) => Promise<T>): Promise<T> =>
  pool.transaction(({ query }) =>
    work({
      run: async (statements) => {
        for (const { text, values } of statements) await query(text, values);
      },
      first: async <T>({ text, values }: Statement) => {
        const [row] = await query(text, values);
        return row === undefined ? undefined : (Object.values(row)[0] as T);
      },
    }),
  );

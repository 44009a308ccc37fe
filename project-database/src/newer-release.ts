/**
 * Rejects a schema that a newer release migrated, because this release does not know its tables. Called for each
 * schema's list of migrations.
 */
import type { Migration } from './auth/index.js';
import type { Session } from './session.js';

/** Matches the version of a Slipway migration. Other tools may record their own versions in the same table. */
const OURS = /^slipway-\d{4}-/;

/** Throws an error that names the database, the migration and the fix. */
export async function refuseNewer(
  session: Session,
  schema: string,
  known: readonly Migration[],
  applied: ReadonlySet<unknown>,
): Promise<void> {
  const unknown = unknownMigration(known, applied);
  if (unknown === undefined) return;
  const { rows } = await session.query('SELECT current_database() AS name');
  throw new Error(newerRelease(schema, String(rows[0]?.name), unknown));
}

/** Returns the first migration that only a newer release knows. */
export const unknownMigration = (known: readonly Migration[], applied: ReadonlySet<unknown>): string | undefined =>
  [...applied].map(String).find((version) => OURS.test(version) && known.every((each) => each.version !== version));

const newerRelease = (schema: string, database: string, migration: string) =>
  `schema ${schema} of the database ${database} has the migration ${migration}, which this release does not know: ` +
  'run the newer release that wrote it';

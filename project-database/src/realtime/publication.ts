/**
 * The publication whose tables' changes realtime sends. It contains stored generated columns, as Supabase's changes do;
 * Postgres leaves them out by default. The project's owner owns it, and may replace it.
 */
import { identifier, type Session } from '../session.js';

const NAME = 'supabase_realtime';
const GENERATED = "publish_generated_columns = 'stored'";

/** Statements of a superuser in a new database. */
export const createPublication = (owner: string) => [
  `CREATE PUBLICATION ${NAME} WITH (${GENERATED})`,
  `ALTER PUBLICATION ${NAME} OWNER TO ${identifier(owner)}`,
];

/** SQL expression: true if the publication exists and leaves out stored generated columns. */
export const LACKS_GENERATED_COLUMNS = `exists (
  select from pg_catalog.pg_publication where pubname = '${NAME}' and pubgencols <> 's')`;

/** Adds stored generated columns to the publication of an older release, as the project's owner. */
export async function publishGeneratedColumns(owner: Session): Promise<void> {
  await owner.query(`ALTER PUBLICATION ${NAME} SET (${GENERATED})`);
}

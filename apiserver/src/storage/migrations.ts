/** The tables of schema `kube`, as numbered migrations, forward only. */
import type pg from 'pg';

const MIGRATIONS = [
  `CREATE TABLE kube.objects (
     resource  text COLLATE "C" NOT NULL,
     namespace text COLLATE "C" NOT NULL,
     name      text COLLATE "C" NOT NULL,
     revision  bigint NOT NULL,
     value     text,
     sealed    bytea,
     key_id    text,
     PRIMARY KEY (resource, namespace, name),
     CHECK ((value IS NULL) <> (sealed IS NULL)),
     CHECK ((sealed IS NULL) = (key_id IS NULL))
   );
   CREATE TABLE kube.counter (
     only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
     revision bigint NOT NULL
   );
   INSERT INTO kube.counter (revision) VALUES (1);`,
];

/** The caller holds the writer's lock, so migrations never run concurrently. */
export async function migrate(client: pg.Client): Promise<void> {
  const { rows } = await client.query(
    `SELECT to_regnamespace('kube') AS schema, to_regclass('kube.migrations') AS done`,
  );
  if (!rows[0].schema) await client.query('CREATE SCHEMA kube');
  if (!rows[0].done) await client.query('CREATE TABLE kube.migrations (version int PRIMARY KEY)');
  const last = await client.query('SELECT coalesce(max(version), 0) AS version FROM kube.migrations');
  if (last.rows[0].version > MIGRATIONS.length) {
    throw new Error(
      `schema kube of the database ${client.database} has migration ${last.rows[0].version}, and this release knows ` +
        `migrations up to ${MIGRATIONS.length}: run the newer release that wrote it`,
    );
  }
  for (let version = Number(last.rows[0].version) + 1; version <= MIGRATIONS.length; version++) {
    await client.query(
      `BEGIN; ${MIGRATIONS[version - 1]} INSERT INTO kube.migrations (version) VALUES (${version}); COMMIT`,
    );
  }
}

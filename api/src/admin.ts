/** Program of `npm run admin`: runs one command on the platform database at SLIPWAY_DATABASE_URL. */
import pg from 'pg';
import { runCommand } from './administration/commands.js';
import { connectionOf } from './database/platform-database.js';
import { databaseUrl } from './settings/settings.js';

try {
  const url = databaseUrl(process.env);
  const database = new pg.Client({ ...connectionOf(url), connectionTimeoutMillis: 10_000 });
  database.on('error', () => {});
  await database.connect().catch((error: Error) => {
    throw new Error(`the platform database does not answer (${error.message}): start the platform first`);
  });
  try {
    process.stdout.write(`${await runCommand(process.argv.slice(2), database)}\n`);
  } finally {
    await database.end();
  }
} catch (error) {
  process.stderr.write(`admin: ${(error as Error).message}\n`);
  process.exitCode = 1;
}

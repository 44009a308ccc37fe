/** Tests the rotation of the key that encrypts Secrets, on a real Postgres. */
import { randomBytes } from 'node:crypto';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import pg from 'pg';
import pino from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { databaseUrl } from '../testing.js';
import { Encryption } from './encryption.js';
import { Postgres } from './postgres.js';

const test = suite<{ postgres: TestPostgres; client: pg.Client }>('rotation of the encryption key');

test.before(async (context) => {
  context.postgres = await startTestPostgres();
  context.client = new pg.Client({ connectionString: databaseUrl(context.postgres) });
  await context.client.connect();
});
test.after(async ({ postgres, client }) => {
  await client.end();
  await postgres.close();
});

const newKey = () => randomBytes(32).toString('base64');
const [first, second] = [newKey(), newKey()];
const NAMES = ['one', 'two', 'three'];

test('a start encrypts all Secrets with the new key or none, and then works without the old key', async ({
  postgres,
  client,
}) => {
  const start = async (current: string, keys: Record<string, string>) => {
    const log = pino({ level: 'silent' });
    const tables = new Postgres(databaseUrl(postgres), new Encryption({ current, keys }), log);
    await tables.open();
    const loaded: string[] = [];
    const failure = await tables
      .load(({ name, bytes }) => loaded.push(`${name} ${bytes}`))
      .then(
        () => undefined,
        (error: Error) => error.message,
      );
    return { tables, loaded: loaded.sort(), failure };
  };
  const keyIds = async () => {
    const { rows } = await client.query('SELECT DISTINCT key_id FROM kube.objects ORDER BY 1');
    return rows.map(({ key_id }) => key_id);
  };
  const made = await start('1', { 1: first });
  const rows = NAMES.map((name) => ({
    resource: 'secrets',
    namespace: 'p-shop',
    name,
    revision: 1,
    bytes: Buffer.from('{}'),
  }));
  await made.tables.commit(rows, 1);
  await made.tables.close();
  assert.equal(await keyIds(), ['1']);

  await client.query(`CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF new.name = 'two' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN new; END $$`);
  await client.query('CREATE TRIGGER die BEFORE UPDATE ON kube.objects FOR EACH ROW EXECUTE FUNCTION die()');
  const killed = await start('2', { 1: first, 2: second });
  assert.ok(killed.failure);
  await killed.tables.close();
  assert.equal(await keyIds(), ['1'], 'after a kill midway, no Secret is under the new key');
  await client.query('DROP TRIGGER die ON kube.objects');

  const early = await start('2', { 2: second });
  assert.is(early.failure, 'a stored object is sealed with key "1", which the keys file does not have');
  await early.tables.close();
  assert.equal(await keyIds(), ['1'], 'removing the old key too early changes nothing');

  const sealed = await start('2', { 1: first, 2: second });
  assert.is(sealed.failure, undefined);
  await sealed.tables.close();
  assert.equal(await keyIds(), ['2']);
  const without = await start('2', { 2: second });
  assert.equal(without.loaded, NAMES.map((name) => `${name} {}`).sort());
  await without.tables.close();
});

test.run();

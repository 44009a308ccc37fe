/**
 * A connection to a project's database, for one request and no other: nothing that SQL does to its session reaches
 * another. Ends by a deadline that the SQL can not move. SQL that may write logs in as the owner role. SQL that only
 * reads logs in as the authenticator and runs as service_role, the role that the project's key stands for: neither has
 * any right to the tables of schema `auth`, and the session can become no role that has.
 */
import { Socket } from 'node:net';
import { authenticatorRole, databaseIdOf, databaseOf, ownerRole, SECRETS, scramOnly } from '@slipway/crds';
import pg from 'pg';
import { callerGone } from '../http/caller-signal.js';
import { BoundedQuery, type Limits, type StatementOutcome } from './bounded-query.js';
import { guardMessages } from './message-guard.js';

export const STATEMENT_TIMEOUT_MS = 30_000;
/** Past the server's own timeout, which SQL may have changed for itself. */
const DEADLINE_MS = STATEMENT_TIMEOUT_MS + 2000;
const CONNECT_TIMEOUT_MS = 5000;
const WRONG_PASSWORD = '28P01';
/** In bytes. */
export const RECEIVED = { message: 16 * 1024 * 1024, all: 64 * 1024 * 1024 };
const LIMITS: Limits = { rows: 1000, keptBytes: 8 * 1024 * 1024 };

export class DeadlineReached extends Error {}
export class CannotConnect extends Error {}

export const isWrongPassword = (error: unknown) =>
  error instanceof CannotConnect && (error.cause as { code?: string } | undefined)?.code === WRONG_PASSWORD;

export interface QueryOutcome {
  statements: StatementOutcome[];
  /** Names of types that are not built in, by OID. */
  typeNames: Map<number, string>;
}

type Credentials = Record<string, string>;

/**
 * `read only`: one statement of service_role, which can neither change data nor leave the transaction that keeps it
 * from that.
 */
export type QueryMode = 'as it is' | 'read only';

/**
 * How each mode logs in, and the Secret's keys of the password: the one in use, and the one that Postgres is about to
 * take.
 */
const LOGINS = {
  'as it is': {
    role: ownerRole,
    password: SECRETS.database.ownerPassword,
    nextPassword: SECRETS.database.nextOwnerPassword,
  },
  'read only': {
    role: authenticatorRole,
    password: SECRETS.database.authenticatorPassword,
    nextPassword: SECRETS.database.nextAuthenticatorPassword,
  },
} as const;

export interface QueryOptions {
  mode: QueryMode;
  /** Aborted once nobody waits for the outcome. */
  signal: AbortSignal;
  /** For tests. */
  deadline?: number;
}

export async function runQuery(
  ref: string,
  credentials: Credentials,
  sql: string,
  { mode, signal, deadline = DEADLINE_MS }: QueryOptions,
): Promise<QueryOutcome> {
  const client = await connect(ref, credentials, mode);
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new DeadlineReached()), deadline);
  const leave = () => reject(callerGone());
  signal.addEventListener('abort', leave);
  if (signal.aborted) leave();
  late.catch(() => undefined);
  let whole = false;
  try {
    const outcome = await Promise.race([run(client, sql, mode), late]);
    whole = true;
    return outcome;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', leave);
    if (whole) void client.end().catch(() => undefined);
    else await abandon(client, ref, credentials, mode);
  }
}

async function run(client: pg.Client, sql: string, mode: QueryMode): Promise<QueryOutcome> {
  const statements = await (mode === 'read only' ? runReadOnly(client, sql) : runBounded(client, sql));
  return { statements, typeNames: await namesOfTypes(client, statements) };
}

async function runBounded(client: pg.Client, sql: string): Promise<StatementOutcome[]> {
  try {
    return await client.query(new BoundedQuery(sql, 'portal', LIMITS)).outcome;
  } catch (error) {
    if (!isSeveralStatements(error)) throw error;
    return client.query(new BoundedQuery(sql, 'simple', LIMITS)).outcome;
  }
}

/**
 * After its first snapshot a transaction can't be made to write any more, and the extended protocol takes one
 * statement: a COMMIT would be that one, and what follows it never runs. Nothing is committed; the connection ends
 * after it.
 */
async function runReadOnly(client: pg.Client, sql: string): Promise<StatementOutcome[]> {
  await client.query('begin transaction read only; set local role service_role; select 1');
  return client.query(new BoundedQuery(sql, 'portal', LIMITS)).outcome;
}

/** Said before anything ran. A syntax error has the same SQLSTATE, but comes from the grammar. */
const isSeveralStatements = (error: unknown) => {
  const { code, routine } = error as { code?: string; routine?: string };
  return code === '42601' && routine === 'exec_parse_message';
};

/** Postgres has the next password a moment before it takes the place of the one that is shown. */
async function connect(ref: string, credentials: Credentials, mode: QueryMode): Promise<pg.Client> {
  const next = credentials[LOGINS[mode].nextPassword];
  try {
    return await connectAs(ref, credentials, mode);
  } catch (error) {
    if (!isWrongPassword(error) || !next) throw error;
    return connectAs(ref, { ...credentials, [LOGINS[mode].password]: next }, mode);
  }
}

async function connectAs(ref: string, credentials: Credentials, mode: QueryMode): Promise<pg.Client> {
  const client = scramOnly(
    new pg.Client({
      ...address(ref, credentials, mode),
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      stream: () => guarded(),
      options: `-c statement_timeout=${STATEMENT_TIMEOUT_MS} -c datestyle=ISO -c client_connection_check_interval=2000 -c default_transaction_read_only=${mode === 'read only' ? 'on' : 'off'}`,
    }),
  );
  // What ends the connection also ends the query, which tells.
  client.on('error', () => undefined);
  try {
    await client.connect();
  } catch (error) {
    throw new CannotConnect('the database does not accept the connection', { cause: error });
  }
  return client;
}

function guarded(): Socket {
  const socket = new Socket();
  guardMessages(socket, RECEIVED);
  return socket;
}

const address = (ref: string, credentials: Credentials, mode: QueryMode) => ({
  host: credentials[SECRETS.database.host] ?? '',
  port: Number(credentials[SECRETS.database.port] ?? 5432),
  database: credentials[SECRETS.database.database] ?? databaseOf(databaseIdOf(ref, credentials)),
  user: LOGINS[mode].role(databaseIdOf(ref, credentials)),
  password: credentials[LOGINS[mode].password] ?? '',
  application_name: 'slipway-query',
});

/** A backend that works does not notice that its client went; a role may end its own. */
async function abandon(client: pg.Client, ref: string, credentials: Credentials, mode: QueryMode): Promise<void> {
  const { processID } = client as unknown as { processID?: number };
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
  stream.destroy();
  if (!processID) return;
  const killer = scramOnly(
    new pg.Client({
      ...address(ref, credentials, mode),
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: CONNECT_TIMEOUT_MS,
    }),
  );
  killer.on('error', () => undefined);
  try {
    await killer.connect();
    await killer.query('select pg_terminate_backend($1)', [processID]);
  } catch {
    // The statement timeout is what is left to end it.
  } finally {
    await killer.end().catch(() => undefined);
  }
}

/** Asked on the same connection, whose rights are the project's own; a session that can not answer leaves numbers. */
async function namesOfTypes(client: pg.Client, statements: StatementOutcome[]): Promise<Map<number, string>> {
  const oids = new Set(statements.flatMap(({ fields }) => fields.map(({ dataTypeID }) => dataTypeID)));
  const unknown = [...oids].filter((oid) => oid >= FIRST_UNKNOWN_OID);
  if (unknown.length === 0) return new Map();
  const sql =
    'select oid::int8::text, pg_catalog.format_type(oid, null) as name from pg_catalog.pg_type where oid = any($1::oid[])';
  const { rows } = await client.query<{ oid: string; name: string }>(sql, [unknown]).catch(() => ({ rows: [] }));
  return new Map(rows.map(({ oid, name }) => [Number(oid), name]));
}
/** Types that a database defines have OIDs from here. */
const FIRST_UNKNOWN_OID = 16_384;

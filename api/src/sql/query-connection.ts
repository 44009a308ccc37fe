/**
 * Connection to a project's database for one request, so that no session state reaches another request. Its deadline
 * can't be moved by SQL. SQL that may write logs in as the owner role. Read-only SQL logs in as the authenticator and
 * runs as service_role, the role of the project's key. Neither role has any right to the tables of schema `auth`, or
 * can become a role that has.
 */
import { Socket } from 'node:net';
import {
  authenticatorRole,
  databaseIdOf,
  databaseOf,
  ownerRole,
  QUERY_APPLICATION,
  queryRole,
  SECRETS,
  scramOnly,
} from '@slipway/installation';
import pg from 'pg';
import { callerGone } from '../http/caller-signal.js';
import { BoundedQuery, type Limits, type StatementOutcome } from './bounded-query.js';
import { guardMessages } from './message-guard.js';

export const STATEMENT_TIMEOUT_MS = 30_000;
/** Maximum milliseconds of a query. This is longer than the server's own timeout, because SQL can change that one. */
const DEADLINE_MS = STATEMENT_TIMEOUT_MS + 2000;
const CONNECT_TIMEOUT_MS = 5000;
const WRONG_PASSWORD = '28P01';
const LOGIN_SHUT = '28000';
/** Maximum bytes that are received: of one message, and of all messages of a query. */
export const RECEIVED = { message: 16 * 1024 * 1024, all: 64 * 1024 * 1024 };
/**
 * Maximum number of statements of a query. Each costs processor time, even without rows: 10,000 take up to 12 ms in one
 * turn of the event loop, and 60,000 took 57 to 88 ms.
 */
export const MOST_STATEMENTS = 10_000;
const LIMITS: Limits = { rows: 1000, statements: MOST_STATEMENTS, keptBytes: 8 * 1024 * 1024 };

export class DeadlineReached extends Error {}
export class CannotConnect extends Error {}

export const isWrongPassword = (error: unknown) => isRefusal(error, WRONG_PASSWORD);
/** True if the operator has closed the login, as it does while a database grows beyond its quota. */
export const isLoginShut = (error: unknown) => isRefusal(error, LOGIN_SHUT);
const isRefusal = (error: unknown, code: string) =>
  error instanceof CannotConnect && (error.cause as { code?: string } | undefined)?.code === code;

export interface QueryOutcome {
  statements: StatementOutcome[];
  /** Names of types that are not built in, by OID. */
  typeNames: Map<number, string>;
}

type Credentials = Record<string, string>;

/**
 * Rights of the SQL. `owner`: those of the owner role. `read only`: one statement of service_role, which can neither
 * change data nor leave its read-only transaction.
 */
export type QueryMode = 'owner' | 'read only';

/**
 * Login of each mode, and the Secret's keys for its present and next password. `owner closed` is the role that acts for
 * the owner while the owner's own login is closed.
 */
const LOGINS = {
  'owner closed': {
    role: queryRole,
    password: SECRETS.database.authenticatorPassword,
    nextPassword: SECRETS.database.nextAuthenticatorPassword,
  },
  owner: {
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

type Login = keyof typeof LOGINS;

export interface QueryOptions {
  mode: QueryMode;
  /** Aborts when the caller has disconnected. */
  signal: AbortSignal;
  /** Maximum bytes of rows and columns of all statements in the result. Default: 8 MiB. */
  keptBytes?: number;
  /** Deadline of a query in milliseconds, for tests. */
  deadline?: number;
}

export async function runQuery(
  ref: string,
  credentials: Credentials,
  sql: string,
  { mode, signal, keptBytes = LIMITS.keptBytes, deadline = DEADLINE_MS }: QueryOptions,
): Promise<QueryOutcome> {
  const { client, login } = await connectInMode(ref, credentials, mode);
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new DeadlineReached()), deadline);
  const leave = () => reject(callerGone());
  signal.addEventListener('abort', leave);
  if (signal.aborted) leave();
  late.catch(() => undefined);
  let whole = false;
  try {
    const outcome = await Promise.race([run(client, sql, mode, { ...LIMITS, keptBytes }), late]);
    whole = true;
    return outcome;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', leave);
    if (whole) void client.end().catch(() => undefined);
    else await abandon(client, ref, credentials, login);
  }
}

async function run(client: pg.Client, sql: string, mode: QueryMode, limits: Limits): Promise<QueryOutcome> {
  const statements = await (mode === 'read only' ? runReadOnly(client, sql, limits) : runBounded(client, sql, limits));
  return { statements, typeNames: await namesOfTypes(client, statements) };
}

async function runBounded(client: pg.Client, sql: string, limits: Limits): Promise<StatementOutcome[]> {
  try {
    return await client.query(new BoundedQuery(sql, 'portal', limits)).outcome;
  } catch (error) {
    if (!isSeveralStatements(error)) throw error;
    return client.query(new BoundedQuery(sql, 'simple', limits)).outcome;
  }
}

/**
 * Runs one read-only statement. After its first snapshot a transaction can't become writable, and the extended protocol
 * accepts one statement, so nothing runs after a COMMIT. Nothing is committed; the connection ends afterwards.
 */
async function runReadOnly(client: pg.Client, sql: string, limits: Limits): Promise<StatementOutcome[]> {
  await client.query('begin transaction read only; set local role service_role; select 1');
  return client.query(new BoundedQuery(sql, 'portal', limits)).outcome;
}

/** Raised before any statement ran. A syntax error has the same SQLSTATE, but comes from the grammar. */
const isSeveralStatements = (error: unknown) => {
  const { code, routine } = error as { code?: string; routine?: string };
  return code === '42601' && routine === 'exec_parse_message';
};

async function connectInMode(ref: string, credentials: Credentials, mode: QueryMode) {
  try {
    return { client: await connect(ref, credentials, mode), login: mode };
  } catch (error) {
    if (!isLoginShut(error) || mode === 'read only') throw error;
    const login = 'owner closed' as const;
    return { client: await connect(ref, credentials, login), login };
  }
}

/** Postgres gets the next password a moment before the Secret makes it the present one. */
async function connect(ref: string, credentials: Credentials, login: Login): Promise<pg.Client> {
  const next = credentials[LOGINS[login].nextPassword];
  try {
    return await connectAs(ref, credentials, login);
  } catch (error) {
    if (!isWrongPassword(error) || !next) throw error;
    return connectAs(ref, { ...credentials, [LOGINS[login].password]: next }, login);
  }
}

async function connectAs(ref: string, credentials: Credentials, login: Login): Promise<pg.Client> {
  const role = login === 'owner closed' ? ` -c role=${ownerRole(databaseIdOf(ref, credentials))}` : '';
  const client = scramOnly(
    new pg.Client({
      ...address(ref, credentials, login),
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      stream: () => guarded(),
      options:
        `-c statement_timeout=${STATEMENT_TIMEOUT_MS} -c datestyle=ISO -c client_connection_check_interval=2000 ` +
        `-c default_transaction_read_only=${login === 'read only' ? 'on' : 'off'}${role}`,
    }),
  );
  // An error that ends the connection also rejects the query, which reports it.
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

const address = (ref: string, credentials: Credentials, login: Login) => ({
  host: credentials[SECRETS.database.host] ?? '',
  port: Number(credentials[SECRETS.database.port] ?? 5432),
  database: credentials[SECRETS.database.database] ?? databaseOf(databaseIdOf(ref, credentials)),
  user: LOGINS[login].role(databaseIdOf(ref, credentials)),
  password: credentials[LOGINS[login].password] ?? '',
  application_name: QUERY_APPLICATION,
});

/** Cancels the statement from a second session, because a busy backend does not notice a closed connection. */
async function abandon(client: pg.Client, ref: string, credentials: Credentials, login: Login): Promise<void> {
  const { processID } = client as unknown as { processID?: number };
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
  stream.destroy();
  if (!processID) return;
  const killer = scramOnly(
    new pg.Client({
      ...address(ref, credentials, login),
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: CONNECT_TIMEOUT_MS,
    }),
  );
  killer.on('error', () => undefined);
  try {
    await killer.connect();
    await killer.query('select pg_terminate_backend($1)', [processID]);
  } catch {
    // The statement timeout ends it.
  } finally {
    await killer.end().catch(() => undefined);
  }
}

/** Looks the names up on the same connection, with the project's rights. If that fails, types stay numbers. */
async function namesOfTypes(client: pg.Client, statements: StatementOutcome[]): Promise<Map<number, string>> {
  const oids = new Set(statements.flatMap(({ fields }) => fields.map(({ dataTypeID }) => dataTypeID)));
  const unknown = [...oids].filter((oid) => oid >= FIRST_UNKNOWN_OID);
  if (unknown.length === 0) return new Map();
  const sql =
    'select oid::int8::text, pg_catalog.format_type(oid, null) as name from pg_catalog.pg_type ' +
    'where oid = any($1::oid[])';
  const { rows } = await client.query<{ oid: string; name: string }>(sql, [unknown]).catch(() => ({ rows: [] }));
  return new Map(rows.map(({ oid, name }) => [Number(oid), name]));
}
/** First OID of types that a database defines. */
const FIRST_UNKNOWN_OID = 16_384;

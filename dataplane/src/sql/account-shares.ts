/**
 * Shares the connections of one Postgres among accounts. It uses the number of sessions that the server itself counts,
 * so that all processes of an installation share one limit. In: opened and closed connections, and the account of each
 * database. Out: whether a new connection may stay. Used by the pool.
 */
import { Counts } from '@slipway/program';
import type { Login } from './login.js';
import type { Session } from './session.js';

/** Share of the server's connections that one account may use, including sessions of `db_url`. */
const SHARE_OF_ONE = 0.25;
/**
 * Share of the server's connections that all accounts may use together. Beyond it, each account still gets a few
 * connections.
 */
const SHARE_OF_ALL = 0.7;
const LEAST = 8;
/**
 * Number of connections of an account in this process that are opened without a check, so that a first request never
 * waits for one.
 */
const UNCHECKED = 2;
/** Milliseconds until the next attempt after an account was refused a connection. */
const REFUSED_MS = 1_000;

/** Thrown if the account's projects have their share of the server's connections. */
export class AccountFullError extends Error {}

/** Connections that are open or being opened, by server and account. */
const connections = new Counts();
const refusedAt = new Map<string, number>();
/**
 * Accounts with a trial, a connection that is being opened and will be checked, and the callbacks waiting for its end.
 */
const trials = new Map<string, Set<() => void>>();
const databases = new Map<string, Set<string>>();
const places = new Map<string, { key: string; database: string }>();

const keyOf = ({ host, port, account }: Login) => account && `${account} ${host} ${port}`;

export const isOfSameAccount = (login: Login, other: Login) => keyOf(login) === keyOf(other);

/** Records the server and account of a project's database, or, without a login, that the project has no database. */
export function placeDatabase(ref: string, login: Login | undefined): void {
  const former = places.get(ref);
  if (former !== undefined) {
    const ofFormer = databases.get(former.key);
    ofFormer?.delete(former.database);
    if (ofFormer?.size === 0) databases.delete(former.key);
    places.delete(ref);
  }
  const key = login && keyOf(login);
  if (login === undefined || key === undefined) return;
  places.set(ref, { key, database: login.database });
  databases.set(key, (databases.get(key) ?? new Set()).add(login.database));
}

export interface CountedConnection {
  /** The connection is open, or has failed: the next trial may begin. */
  endTrial(): void;
  /** The connection is closed, or was never opened. */
  leave(): void;
}

/** Counts a connection that is about to be opened for the project's account. */
export function countForAccount(login: Login): CountedConnection {
  const key = keyOf(login);
  if (key === undefined) return UNCOUNTED;
  connections.add(key);
  const isTrial = connections.of(key) > UNCHECKED;
  if (isTrial) trials.set(key, new Set());
  return {
    endTrial: () => isTrial && endTrial(key),
    leave: () => {
      connections.remove(key);
      if (connections.of(key) === 0) refusedAt.delete(key);
    },
  };
}

const UNCOUNTED: CountedConnection = { endTrial: () => undefined, leave: () => undefined };

/**
 * Whether a connection may be opened: `now`, `next` (after the present trial), or not for a while (`full`), because the
 * account has its share. Trials run one at a time, because concurrent ones would not count each other.
 */
export function turnOf(login: Login): 'now' | 'next' | 'full' {
  const key = keyOf(login);
  if (!key || connections.of(key) < UNCHECKED) return 'now';
  if (performance.now() - (refusedAt.get(key) ?? Number.NEGATIVE_INFINITY) < REFUSED_MS) return 'full';
  return trials.has(key) ? 'next' : 'now';
}

/** Calls `look` after the present trial. */
export function afterTrial(login: Login, look: () => void): void {
  trials.get(keyOf(login) ?? '')?.add(look);
}

function endTrial(key: string): void {
  const waiting = trials.get(key);
  trials.delete(key);
  for (const look of waiting ?? []) look();
}

/** Rejects with AccountFullError if the new connection exceeds the account's share. */
export async function checkShare(login: Login, session: Session): Promise<void> {
  const key = keyOf(login);
  if (key === undefined || connections.of(key) <= UNCHECKED) return;
  const names = JSON.stringify([...(databases.get(key) ?? []), login.database]);
  const [, result] = await session.run([{ text: OWN_NAMES }, { text: CONNECTIONS, values: [names] }]);
  const [own, all, capacity] = (result?.rows[0] ?? []).map(Number) as [number, number, number];
  if (own <= LEAST || (own <= capacity * SHARE_OF_ONE && all <= capacity * SHARE_OF_ALL)) return;
  refusedAt.set(key, performance.now());
  throw new AccountFullError();
}

/**
 * Statement that makes names refer to Postgres' own objects, because a database's owner may define functions and
 * operators that hide them.
 */
const OWN_NAMES = `select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)`;
/**
 * Query that counts sessions by database. Roles of tenants may count sessions but not read them. Sessions that read
 * changes have a separate limit.
 */
const CONNECTIONS = `
  with used as (
    select datname, pg_stat_get_db_numbackends(pg_database.oid) - count(slot_name) as sessions
    from pg_database left join pg_replication_slots on database = datname and active
    group by pg_database.oid)
  select
    sum(sessions) filter (where datname in (select json_array_elements_text($1::json))),
    sum(sessions),
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
  from used`;

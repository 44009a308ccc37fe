/** Parses a `postgres://` URL in libpq's format. In: the URL. Out: a login. */
import pg from 'pg';
import type { Login } from '../sql/login.js';

/** Values of sslmode that accept a server without TLS. */
const PLAIN = new Set(['disable', 'allow', 'prefer']);

/** `name` is the variable, for errors. */
export function loginOf(url: string, name: string): Login {
  if (!/^postgres(ql)?:\/\//.test(url)) throw new Error(`${name} is no postgres:// URL`);
  const mode = /[?&]sslmode=([^&]*)/.exec(url)?.[1];
  if (mode !== undefined && !PLAIN.has(mode)) {
    throw new Error(`${name} has sslmode=${mode}, but this program connects without TLS. Set sslmode=disable`);
  }
  const { host, port, database, user, password } = parsed(url, name);
  if (!user || !database || typeof password !== 'string') {
    throw new Error(`${name} must name user, password and database: postgres://user:password@host:5432/database`);
  }
  return { host, port, database, user, password };
}

function parsed(url: string, name: string): pg.Client {
  try {
    return new pg.Client({ connectionString: url.replace(/([?&])sslmode=[^&]*&?/, '$1') });
  } catch {
    // The parser's own message may quote the URL with its password.
    throw new Error(`${name} is no postgres:// URL`);
  }
}

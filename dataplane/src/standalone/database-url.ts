/** How a service reaches its database, from a `postgres://` URL as libpq has them. In: the URL. Out: a login. */
import pg from 'pg';
import type { Login } from '../tenant.js';

/** Those under which a server without TLS is talked to. */
const PLAIN = new Set(['disable', 'allow', 'prefer']);

/** `name`: of the variable, for errors. */
export function loginOf(url: string, name: string): Login {
  if (!/^postgres(ql)?:\/\//.test(url)) throw new Error(`${name} is no postgres:// URL`);
  const mode = /[?&]sslmode=([^&]*)/.exec(url)?.[1];
  if (mode !== undefined && !PLAIN.has(mode)) {
    throw new Error(`${name} asks for sslmode=${mode}, but there is no TLS to the database here: say sslmode=disable`);
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
    // Its own message may quote the URL, with the password in it.
    throw new Error(`${name} is no postgres:// URL`);
  }
}

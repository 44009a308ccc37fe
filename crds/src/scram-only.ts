/**
 * A login that gives no password away: `pg` answers a server that asks for the password itself, or for its MD5, and
 * whoever answers at a tenant's address may be hostile. In: a client of `pg` that is not connected yet. Called wherever
 * a tenant's Postgres is logged in to.
 */

export const ASKED_IN_THE_CLEAR =
  'the server asks for a password in the clear: it must ask by SCRAM (scram-sha-256 in pg_hba.conf)';

/** Methods by which `pg` answers a password request; its types declare neither them nor the connection. */
const ANSWERS = ['_handleAuthCleartextPassword', '_handleAuthMD5Password'] as const;

interface Connecting {
  connection: { stream: { destroy(): void }; emit(event: 'error', error: Error): void };
}

export function scramOnly<C extends object>(client: C): C {
  const refuse = () => {
    const { connection } = client as unknown as Connecting;
    connection.emit('error', new Error(ASKED_IN_THE_CLEAR));
    connection.stream.destroy();
  };
  for (const answer of ANSWERS) {
    if (!(answer in client)) throw new Error(`this version of pg has no ${answer}: nothing would guard the password`);
    Object.assign(client, { [answer]: refuse });
  }
  return client;
}

/**
 * Makes a Postgres login that never sends its password. By default `pg` sends it, or its MD5, to a server that requests
 * it, and the server at a tenant's address may be hostile. In: a client of `pg` that is not connected yet. Called
 * before every login to a tenant's Postgres.
 */

export const ASKED_IN_THE_CLEAR = 'the server requests a password in clear text: set scram-sha-256 in its pg_hba.conf';

/** Methods with which `pg` responds to a password request. Its types declare neither them nor the connection. */
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

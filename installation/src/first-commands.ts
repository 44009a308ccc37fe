/**
 * The commands of a first sign-in and a first project, which the start prints and the page at `/` shows. In: the
 * account, and whether it can register. Out: lines for a shell. They can be repeated, except with a setup code, which
 * works once.
 */
export interface FirstCommands {
  publicUrl: string;
  account: { email: string; password: string };
  /** True if registration is open. */
  isOpen: boolean;
  /** Code that registers the first administrator; undefined: there already is one, or registration needs no code. */
  setupCode?: string | undefined;
}

const JSON_TYPE = "-H 'content-type: application/json'";
const TAKE_TOKEN = `sed -n 's/.*"token":"\\([^"]*\\)".*/\\1/p'`;

export function firstCommands({ publicUrl, account, isOpen, setupCode }: FirstCommands): string[] {
  const send = (route: string, body: string) => `curl -s ${publicUrl}/auth/${route} ${JSON_TYPE} -d ${body}`;
  const token = (command: string) => `TOKEN=$(${command} | ${TAKE_TOKEN})`;
  const authorization = `-H "authorization: Bearer \${TOKEN:?is empty: the sign-in failed}"`;
  const create = `curl -s ${publicUrl}/projects ${authorization} ${JSON_TYPE} -d '{"name":"first"}'`;
  if (setupCode !== undefined) {
    return [token(send('register', `'${JSON.stringify({ ...account, code: setupCode })}'`)), create];
  }
  const register = `${send('register', '"$ACCOUNT"')}   # 409 if it exists; the first account is the administrator`;
  return [
    `ACCOUNT='${JSON.stringify(account)}'`,
    ...(isOpen ? [register] : []),
    token(send('login', '"$ACCOUNT"')),
    create,
  ];
}

/** The README's account, whose password is public: for a platform that only this machine can reach. */
export const EXAMPLE_ACCOUNT = { email: 'me@example.com', password: 'a long password' };

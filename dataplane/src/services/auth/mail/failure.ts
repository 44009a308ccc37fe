/** The reason why a mail was not sent, for the project's owner. */
import { AuthError } from '../errors.js';
import { refusalBehind } from '../refused-address.js';

/** Members of an error of nodemailer. */
interface MailError extends Error {
  code?: string;
  /** The last command that was sent. `CONN`: none, so that the server may not be one for mail. */
  command?: string;
  responseCode?: number;
  response?: string;
}

const MOST_QUOTED = 200;

/**
 * The response of a server is quoted once it has greeted as one for mail. Others, which a host name in the settings may
 * lead to, must not be read in this way.
 */
export function whyNotSent(error: unknown): string {
  // The hook that sends mails may have a refused address.
  if (error instanceof AuthError) return refusalBehind(error)?.message ?? error.code;
  const { code = '', command = '', responseCode, response = '', message } = error as MailError;
  if (responseCode !== undefined && command !== 'CONN') {
    return `the server refused: ${response.replaceAll(/[^\x20-\x7e]+/g, ' ').slice(0, MOST_QUOTED)}`;
  }
  const known = WORDS[code];
  if (known !== undefined) return known;
  // An error of the system has the address that the name leads to. A refused address has instructions.
  return /^E[A-Z]+$/.test(code) && code !== 'EADDRESSREFUSED' ? code : message.slice(0, MOST_QUOTED);
}

const SILENT = 'the server does not respond in time';
const NO_HOST = 'there is no such host';
const WORDS: Readonly<Record<string, string>> = {
  EAUTH: 'the server refused the user or the password',
  ETIMEDOUT: SILENT,
  ECONNECTION: SILENT,
  ETLS: 'the server has no valid TLS certificate for this name, or no TLS',
  EDNS: NO_HOST,
  ENOTFOUND: NO_HOST,
  EPROTOCOL: 'this is no mail server',
};

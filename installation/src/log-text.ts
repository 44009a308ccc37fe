/**
 * Redacts text of logs before an owner reads it. In: a message that a tenant or a client may have chosen. Out: the
 * message without secrets. Pure, and linear in the length of the text.
 */

export const REDACTED = '[redacted]';

/** Messages of log_statement and of log_min_duration_statement, which the project's owner can set. */
const LOGGED_STATEMENT = /^((?:duration: [\d.]+ ms {1,3})?(?:statement|(?:parse|bind|execute) [^\s:]{1,80}):)[\s\S]*$/;

/** Hides the statement in a message of Postgres with the severity LOG. */
export const withoutStatement = (message: string): string => message.replace(LOGGED_STATEMENT, `$1 ${REDACTED}`);

/** Control characters are unsafe in terminals. */
export const printable = (text: string): string =>
  text.toWellFormed().replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, ' ');

const NAMES = 'api[-_]?key|(?:access|refresh|id)?[-_]?token|passw(?:or)?d|secret|authorization|signature';
const NAMED = new RegExp(`((?:${NAMES})["']?\\s{0,3}[=:]\\s{0,3}["']?(?:(?:Bearer|Basic)\\s{1,3})?)[^\\s"'&,;]+`, 'gi');
const BEARER = /\b((?:Bearer|Basic)\s{1,3})[^\s"',;]+/gi;

/** Hides what looks like a secret. The services log none, but clients put keys into addresses and messages. */
export const withoutSecrets = (text: string): string =>
  text
    .replaceAll(NAMED, `$1${REDACTED}`)
    .replaceAll(BEARER, `$1${REDACTED}`)
    .replaceAll(/[\w.-]{20,}/g, (word) => (isJwt(word) ? REDACTED : word))
    .replaceAll(/[^\s"'<>]+/g, withoutCredentials);

const isJwt = (word: string): boolean => word.includes('eyJ') && word.split('.').length >= 3;

/** `postgresql://role:password@host`. */
function withoutCredentials(word: string): string {
  const scheme = word.indexOf('://');
  const at = word.lastIndexOf('@');
  return scheme < 0 || at < scheme ? word : `${word.slice(0, scheme + 3)}${REDACTED}${word.slice(at)}`;
}

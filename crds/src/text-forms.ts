/**
 * The forms of a project's texts, the same over REST and over kubectl. In: nothing. Out: patterns, each with the words
 * for a person, used by project.ts and by the API's schema. JavaScript (flag u) and RE2 must read a pattern alike: no
 * lookaround, `\x00` for `\u0000`, and no `\s`, which means more in JavaScript.
 */

export interface TextForm {
  pattern: string;
  /** The form of a value, in words. */
  words: string;
}

const UNSEEN = '\\x00-\\x20\\x7f-\\xa0';
const HOST = `(\\[[0-9A-Fa-f:.]+\\]|[^${UNSEEN}/?#@:\\\\\\[\\]-][^${UNSEEN}/?#@:\\\\\\[\\]]*)(:[0-9]*)?`;
const PATH = `([/?#][^${UNSEEN}]*)?`;
const SSH_USER = `[^${UNSEEN}/?#@:\\\\-][^${UNSEEN}/?#@:\\\\]*`;
const SHORT_SSH = `[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^${UNSEEN}-][^${UNSEEN}]*`;

/** Only ssh may name a user: a user name over http may be a token, as it is on GitHub. */
export const REPO_URL: TextForm = {
  pattern: `^((https?|git)://${HOST}${PATH}|ssh://(${SSH_USER}@)?${HOST}${PATH}|${SHORT_SSH})$`,
  words: 'an http(s) or git URL without a user name, password or token in it, or an ssh one without a password',
};

/** Not an option of git's. */
export const BRANCH: TextForm = {
  pattern: '^[A-Za-z0-9_][A-Za-z0-9_./-]*$',
  words: 'a branch of letters, digits and `_ . / -` that begins with a letter, a digit or `_`',
};

const CHARACTER = '[^\\x00-\\x1f\\x7f/]';
const NO_DOT = '[^\\x00-\\x1f\\x7f/.]';
/** A step of a path that isn't `..`. */
const STEP = `(\\.|\\.?${NO_DOT}${CHARACTER}*|\\.\\.${CHARACTER}+)`;

export const OUTPUT_DIR: TextForm = {
  pattern: `^${STEP}(/${STEP}?)*$`,
  words: 'a folder within the repository: a path that does not begin with `/` and has no step `..`',
};

export const COMMAND: TextForm = {
  pattern: '^[^\\x00]*$',
  words: 'a shell command without the character NUL',
};

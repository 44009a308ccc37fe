/**
 * The syntax of a project's text fields, the same over REST and over kubectl. In: nothing. Out: patterns, each with a
 * description for people. project.ts and the API's schema use them.
 *
 * JavaScript (flag u) and RE2 must interpret a pattern in the same way. So it has no lookaround, `\x00` instead of
 * `\u0000`, and no `\s`, which matches more in JavaScript.
 */

export interface TextForm {
  pattern: string;
  /** Describes the syntax for people. */
  words: string;
}

const UNSEEN = '\\x00-\\x20\\x7f-\\xa0';
const HOST = `(\\[[0-9A-Fa-f:.]+\\]|[^${UNSEEN}/?#@:\\\\\\[\\]-][^${UNSEEN}/?#@:\\\\\\[\\]]*)(:[0-9]*)?`;
const PATH = `([/?#][^${UNSEEN}]*)?`;
const SSH_USER = `[^${UNSEEN}/?#@:\\\\-][^${UNSEEN}/?#@:\\\\]*`;
const SHORT_SSH = `[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^${UNSEEN}-][^${UNSEEN}]*`;

/**
 * The URL of a repository. Only an ssh URL may have a user name: over http a user name may be a token, as on GitHub.
 */
export const REPO_URL: TextForm = {
  pattern: `^((https?|git)://${HOST}${PATH}|ssh://(${SSH_USER}@)?${HOST}${PATH}|${SHORT_SSH})$`,
  words: 'an http(s) or git URL without a user name, password or token in it, or an ssh one without a password',
};

/** The URLs that a build can clone. REST accepts no others. The resource still accepts the URLs of earlier releases. */
export const CLONED_URL: TextForm = {
  pattern: `^(https://${HOST}${PATH}|ssh://(${SSH_USER}@)?${HOST}${PATH}|${SHORT_SSH})$`,
  words:
    'an https URL without a user name, password or token in it, or an ssh one without a password; http:// and git:// ' +
    'are not encrypted, so write https:// or ssh://',
};

/** The name of a branch, which must not look like an option of git. */
export const BRANCH: TextForm = {
  pattern: '^[A-Za-z0-9_][A-Za-z0-9_./-]*$',
  words: 'a branch of letters, digits and `_ . / -` that begins with a letter, a digit or `_`',
};

const CHARACTER = '[^\\x00-\\x1f\\x7f/]';
const NO_DOT = '[^\\x00-\\x1f\\x7f/.]';
/** Pattern of one step of a path, except `..`. */
const STEP = `(\\.|\\.?${NO_DOT}${CHARACTER}*|\\.\\.${CHARACTER}+)`;

/** The folder in the repository to publish or to build. */
export const REPOSITORY_FOLDER: TextForm = {
  pattern: `^${STEP}(/${STEP}?)*$`,
  words: 'a folder within the repository: a path that does not begin with `/` and has no step `..`',
};

export const COMMAND: TextForm = {
  pattern: '^[^\\x00]*$',
  words: 'a shell command without the character NUL',
};

/** A path of a URL in an app, which begins with `/` and may have a query. */
export const URL_PATH: TextForm = {
  pattern: '^/[!-~]*$',
  words: 'a path of a URL that begins with `/`, of printable ASCII characters without spaces',
};

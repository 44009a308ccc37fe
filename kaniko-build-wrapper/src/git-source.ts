/**
 * Parses the URL of a repository and the name of a revision. Refuses everything that git could take for something else.
 */
import { Refused } from './request.js';

export type GitSource =
  | { kind: 'https'; url: string; origin: string }
  | { kind: 'ssh'; url: string; user: string; host: string; port: number };

const LONGEST = 2048;
const HOST = /^[a-z\d](?:[a-z\d.-]*[a-z\d])?$/i;
const PATH = /^\/?[\w.~@%+,=:-][\w.~@%+,=:/-]*$/;

/** Returns the source. Throws Refused, whose message is for the tenant. */
export function gitSourceOf(repoUrl: string): GitSource {
  if (repoUrl.length > LONGEST) throw new Refused(`repo_url is longer than ${LONGEST} characters.`);
  const [, user, host, path] = /^([\w.-]+)@([^:/@\s]+):(?!\/\/)(\S+)$/.exec(repoUrl) ?? [];
  if (user && host && path) return sshSource({ user, host, port: 22, path, url: repoUrl });
  const url = URL.canParse(repoUrl) ? new URL(repoUrl) : undefined;
  if (url?.protocol === 'https:') return httpsSource(url);
  if (url?.protocol === 'ssh:')
    return sshSource({
      user: url.username || 'git',
      host: url.hostname,
      port: Number(url.port || 22),
      path: url.pathname,
      url: repoUrl,
    });
  throw new Refused('repo_url must begin with https:// or ssh://, or have the form git@host:path.');
}

function httpsSource(url: URL): GitSource {
  if (url.username || url.password) throw new Refused('repo_url has credentials. Set them as github_token instead.');
  if (url.search || url.hash) throw new Refused('repo_url has a query or a fragment. Remove it.');
  return { kind: 'https', url: url.href, origin: url.origin };
}

function sshSource(parts: { user: string; host: string; port: number; path: string; url: string }): GitSource {
  const { user, host, port, path, url } = parts;
  // ssh would parse a name with a leading dash as an option.
  if (!/^\w[\w.-]*$/.test(user)) throw new Refused('repo_url has a user name with characters that ssh does not allow.');
  if (!HOST.test(host)) throw new Refused('repo_url has no valid host name.');
  if (!PATH.test(path)) throw new Refused('repo_url has a path with characters that are not allowed.');
  return { kind: 'ssh', url, user, host, port };
}

/** Returns the refs that may have this name, in the order to try them, by the rules of git-check-ref-format. */
export function refsOf(revision: string): string[] {
  if (/^(?:[\da-f]{40}|[\da-f]{64})$/.test(revision)) return [revision];
  const parts = revision.split('/');
  const isValid =
    revision.length <= 255 &&
    /^[^\p{Cc}\s~^:?*[\\]+$/u.test(revision) &&
    !revision.includes('..') &&
    !revision.includes('@{') &&
    !/^[-+@]|\.$/.test(revision) &&
    parts.every((part) => part !== '' && !part.startsWith('.') && !part.endsWith('.lock'));
  if (!isValid) {
    const shown = JSON.stringify(revision.slice(0, 100));
    throw new Refused(`${shown} is not a valid name of a branch, tag or commit.`);
  }
  return revision.startsWith('refs/') ? [revision] : [`refs/heads/${revision}`, `refs/tags/${revision}`];
}

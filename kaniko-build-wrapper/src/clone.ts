/**
 * Clones one revision with the git binary. Git runs in sealed processes that end before the tenant's commands start, so
 * those see neither token nor key. In: the source and its credentials, and a function that runs a sealed command. Out:
 * the working tree, and the commit.
 *
 * Git's environment has only what is set here. It reads no other configuration, runs no hooks and no filters, and uses
 * only https and ssh. Values of the tenant are arguments after `--`.
 */
import { chownSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Account } from '@slipway/sandbox';
import { type GitSource, gitSourceOf, refsOf } from './git-source.js';
import { type BuildRequest, Refused, type Source } from './request.js';
import { PROXY_URL, type StepCommand } from './sealed-command.js';
import { hasSsh, type Ssh, sshFor } from './ssh.js';
import { LIST_SCRIPT, moveInto, type Submodule, submodulesOf } from './submodules.js';

/**
 * Script that clones a repository. $1 is the folder, $2 is the URL, and the other arguments are the refs to try. The
 * script checks out the first ref that exists. Only the error "ref not found" makes it try the next ref.
 */
const SCRIPT = `folder=$1 url=$2
shift 2
cd "$folder" || exit 1
git init --quiet || exit $?
git remote add -- origin "$url" || exit $?
for ref; do
  git fetch --quiet --depth=1 --no-tags --no-recurse-submodules -- origin "+$ref" 2>"$HOME/errors"
  code=$?
  cat "$HOME/errors"
  [ "$code" != 0 ] || break
  grep -q "^fatal: couldn't find remote ref" "$HOME/errors" || break
done
[ "$code" = 0 ] || exit "$code"
exec git checkout --quiet --force --detach FETCH_HEAD --`;

/**
 * Git's credential helper, which prints the token for the repository's own origin. The token is in a variable that only
 * the clone has.
 */
const HELPER = `!f() { test "$1" = get && printf 'username=%s\\npassword=%s\\n' "$GIT_USER" "$GIT_TOKEN"; }; f`;

/** Maximum levels of nested submodules. */
const DEPTH = 4;
const SUBMODULES = 50;
const LISTING_BYTES = 2 ** 20;

export interface Clone {
  request: BuildRequest;
  folders: { source: string; home: string; socket: string };
  account: Account | undefined;
  /** The address of the egress proxy for git. Default: the address for all sealed commands. */
  proxyUrl?: string;
  /** Runs a sealed command until it exits. Throws if the command fails. */
  run(command: StepCommand, onOutput?: (bytes: Buffer) => void): Promise<void>;
}

/** Throws Refused if the source, the revision or a submodule is not valid. */
export async function clone(how: Clone): Promise<void> {
  const { request, folders } = how;
  await withSsh(how, async (cloning) => {
    await cloning.checkOut(request.source, folders.source);
    if (request.source.submodules) await cloning.submodules(folders.source, request.source.repoUrl);
  });
}

/** Returns the commit of the branch from `git ls-remote`, or undefined if the branch does not exist. */
export async function newestCommit(how: Clone): Promise<string | undefined> {
  let newest: string | undefined;
  await withSsh(how, async (cloning) => {
    newest = await cloning.newestCommit(how.request.source, how.folders.source);
  });
  return newest;
}

async function withSsh(how: Clone, use: (cloning: Cloning) => Promise<void>): Promise<void> {
  const { request, folders, account } = how;
  const source = gitSourceOf(request.source.repoUrl);
  if (source.kind === 'ssh' && !hasSsh()) throw new Refused('This machine has no ssh. Set an https:// address.');
  const ssh = sshFor(request.credentials.deployKey, { ...request.folders, socket: folders.socket }, account);
  try {
    await use(new Cloning(how, ssh));
  } finally {
    ssh.close();
  }
}

class Cloning {
  #count = 0;
  readonly #env: Record<string, string>;

  constructor(
    private readonly how: Clone,
    private readonly ssh: Ssh,
  ) {
    const { request, folders } = how;
    const { token } = request.credentials;
    this.#env = {
      PATH: '/usr/bin:/bin',
      HOME: folders.home,
      LC_ALL: 'C',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_ATTR_NOSYSTEM: '1',
      GIT_ALLOW_PROTOCOL: 'https:ssh',
      GIT_TERMINAL_PROMPT: '0',
      GIT_ASKPASS: '/bin/false',
      ...(request.certificates && { GIT_SSL_CAINFO: request.certificates, GIT_SSL_CAPATH: '/etc/ssl/certs' }),
      ...configuration(settingsFor(gitSourceOf(request.source.repoUrl), token, how.proxyUrl ?? PROXY_URL)),
      ...(token && { GIT_USER: 'git', GIT_TOKEN: token }),
      ...ssh.env,
    };
  }

  async checkOut({ repoUrl, revision }: { repoUrl: string; revision: string }, folder: string): Promise<void> {
    const command = ['/bin/sh', '-c', SCRIPT, 'sh', folder, gitSourceOf(repoUrl).url, ...refsOf(revision)];
    await this.#run(command, folder);
  }

  /** `git ls-remote` prints all refs that end with the name, so the exact one is chosen here. */
  async newestCommit({ repoUrl, revision }: Source, folder: string): Promise<string | undefined> {
    const [ref = ''] = refsOf(revision);
    const chunks: Buffer[] = [];
    let size = 0;
    const script = 'exec git ls-remote --quiet -- "$1" "$2"';
    const command = ['/bin/sh', '-c', script, 'sh', gitSourceOf(repoUrl).url, ref];
    await this.#run(command, folder, (bytes) => {
      if ((size += bytes.length) <= LISTING_BYTES) chunks.push(bytes);
    });
    if (size > LISTING_BYTES) throw new Refused('The list of branches is larger than 1 MiB.');
    const lines = Buffer.concat(chunks).toString().split('\n');
    return lines.map((line) => line.split('\t', 2)).find(([, name]) => name === ref)?.[0];
  }

  async submodules(tree: string, repoUrl: string, depth = 1): Promise<void> {
    const chunks: Buffer[] = [];
    let size = 0;
    await this.#run(['/bin/sh', '-c', LIST_SCRIPT, 'sh', tree], tree, (bytes) => {
      if ((size += bytes.length) <= LISTING_BYTES) chunks.push(bytes);
    });
    if (size > LISTING_BYTES) throw new Refused('The list of submodules is larger than 1 MiB.');
    const submodules = submodulesOf(Buffer.concat(chunks).toString(), repoUrl);
    if (submodules.length > 0 && depth > DEPTH) throw new Refused(`Submodules are more than ${DEPTH} levels deep.`);
    for (const submodule of submodules) await this.#submodule(tree, submodule, depth);
  }

  async #submodule(tree: string, submodule: Submodule, depth: number): Promise<void> {
    if (++this.#count > SUBMODULES) throw new Refused(`The repository has more than ${SUBMODULES} submodules.`);
    const { account, request } = this.how;
    const folder = path.join(request.folders.work, `submodule-${this.#count}`);
    mkdirSync(folder, { mode: 0o700 });
    if (account) chownSync(folder, account.uid, account.gid);
    await this.checkOut(submodule, folder);
    await this.submodules(folder, submodule.repoUrl, depth + 1);
    moveInto(tree, submodule.place, folder);
  }

  async #run(command: string[], folder: string, onOutput?: (bytes: Buffer) => void): Promise<void> {
    const { certificates } = this.how.request;
    const { home } = this.how.folders;
    const readable = [...this.ssh.readable, ...(certificates ? [certificates] : [])];
    const writable = [folder, home, ...this.ssh.writable];
    await this.how.run({ command, env: this.#env, readable, writable, shown: 'git' }, onOutput);
  }
}

function settingsFor(source: GitSource, token: string | null, proxyUrl: string): [name: string, value: string][] {
  return [
    ['core.hooksPath', '/dev/null'],
    ['core.fsmonitor', 'false'],
    ['core.protectHFS', 'true'],
    ['core.protectNTFS', 'true'],
    ['transfer.fsckObjects', 'true'],
    ['gc.auto', '0'],
    ['maintenance.auto', 'false'],
    ['init.defaultBranch', 'main'],
    ['http.proxy', proxyUrl],
    ['http.followRedirects', 'initial'],
    ['credential.helper', ''],
    ...(token && source.kind === 'https' ? [[`credential.${source.origin}.helper`, HELPER] as [string, string]] : []),
  ];
}

const configuration = (settings: [name: string, value: string][]): Record<string, string> =>
  Object.fromEntries([
    ['GIT_CONFIG_COUNT', String(settings.length)],
    ...settings.flatMap(([name, value], index) => [
      [`GIT_CONFIG_KEY_${index}`, name],
      [`GIT_CONFIG_VALUE_${index}`, value],
    ]),
  ]);

/** Returns the commit of a working tree that `clone` made. */
export function commitOf(folder: string): string {
  const head = readFileSync(path.join(folder, '.git', 'HEAD'), 'utf8').trim();
  if (!/^[\da-f]{40,64}$/.test(head)) throw new Error('the clone has no commit');
  return head;
}

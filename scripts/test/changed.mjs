/**
 * Finds the tests that a change can affect, for `npm test -- --changed`. In: the files that changed since main. Out:
 * the test files that use one of them, by imports, by paths in their strings (programs, pages and fixtures are read by
 * path), and by the tables here. If no test is known to use a changed file, every test runs.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

const CLUSTER_PHASE = 'scripts/test/cluster-phase.mjs';

/** Files that a file uses under a name that is computed at run time. A name that ends in `/` is a folder. */
const USES = {
  'slipway/src/programs.ts': ['operator/src/main.ts', 'api/src/main.ts', 'dataplane/src/main.ts'],
  'slipway/src/admin.ts': ['api/src/admin.ts'],
  'slipway/src/fresh/fresh.long.test.ts': [
    'README.md',
    'docs/getting-started.md',
    'slipway/src/main.ts',
    ...['start', 'stop', 'admin', 'uninstall', 'build'].map((name) => `scripts/${name}.mjs`),
  ],
  'checks/src/lockfile.test.ts': ['package-lock.json', 'bench/peers/'],
  'checks/src/images.test.ts': ['.dockerignore', 'images/Dockerfile'],
  'dataplane/src/services/functions/unprivileged.long.test.ts': ['functions', 'kill', 'pods', 'sandbox'].map(
    (name) => `dataplane/src/services/functions/${name}.test.ts`,
  ),
  'dataplane/src/standalone/testing.ts': ['dataplane/src/standalone/'],
  'cdk8s/src/files.test.ts': ['manifests/', 'scripts/generate.mjs'],
  'e2e/src/cluster/images.ts': [
    'operator/src/main.ts',
    'api/src/main.ts',
    'dataplane/src/main.ts',
    'kaniko-build-wrapper/src/pod/main.ts',
    'images/',
    'e2e/kaniko-stand-in/',
    '.dockerignore',
  ],
  'e2e/src/cluster/installation.ts': ['manifests/'],
  'e2e/src/cluster/kind.ts': ['kind-config.yaml'],
};

/** Tests that read every source or page, and take a second. */
const ALWAYS = ['language', 'arrows', 'clock'].map((name) => `checks/src/${name}.test.ts`);

/** Files that only the linter, the compiler or a test of ALWAYS checks, unless another test reaches them. */
const CHECKED_BY_ALL = [
  /^bench\//,
  /\.md$/,
  /\.d\.ts$/,
  /^(LICENSE|Makefile|biome\.json|\.gitignore)$/,
  /^\.ci\//,
  // The program behind `npm run fixture`, and an empty module.
  /^e2e\/src\/(upgrade\/main|index)\.ts$/,
  /^scripts\/(lint|format|fixture|bench)\.mjs$/,
];

/** Files that every test uses. */
const USED_BY_ALL = [
  /^scripts\/(test|prepare|help)\.mjs$/,
  /^scripts\/test\//,
  /^([\w-]+\/)?(package(-lock)?|tsconfig(\.base)?)\.json$/,
  /^\.npmrc$/,
];

const git = (root, ...args) =>
  execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 28, stdio: ['ignore', 'pipe', 'pipe'] });
const paths = (text) => text.split('\0').filter(Boolean);

/** Returns the files that git tracks, and new ones that it does not ignore. */
export const sourceFiles = (root) =>
  paths(git(root, 'ls-files', '-z', '--cached', '--others', '--exclude-standard')).filter((file) =>
    existsSync(path.join(root, file)),
  );

/** Returns the files that differ from the commit where this branch left main, with removed and uncommitted ones. */
export function changedFiles(root) {
  const base = git(root, 'merge-base', 'main', 'HEAD').trim();
  const tracked = paths(git(root, 'diff', '--name-only', '-z', '--no-renames', base));
  const added = paths(git(root, 'ls-files', '-z', '--others', '--exclude-standard'));
  return [...new Set([...tracked, ...added])].sort();
}

/** Records which file uses which, for all files of a checkout. */
export class UseGraph {
  #files;
  #folders = new Set();
  #users = new Map();

  /** `read` returns the text of one of `files`. */
  constructor(files, read) {
    this.#files = new Set(files);
    for (const file of files)
      for (let folder = path.dirname(file); folder !== '.'; folder = path.dirname(folder)) this.#folders.add(folder);
    for (const file of files) {
      for (const used of this.#usesOf(file, read)) {
        if (!this.#users.has(used)) this.#users.set(used, new Set());
        this.#users.get(used).add(file);
      }
    }
  }

  static of(root) {
    return new UseGraph(sourceFiles(root), (file) => readFileSync(path.join(root, file), 'utf8'));
  }

  #usesOf(file, read) {
    const uses = [...(USES[file] ?? [])];
    if (/\.cluster\.test\.ts$/.test(file)) uses.push(CLUSTER_PHASE);
    if (/\.(ts|mjs)$/.test(file)) {
      for (const literal of literalsOf(read(file))) {
        const used = this.#placeOf(literal, file);
        if (used !== undefined) uses.push(used);
      }
    }
    return uses;
  }

  /** Returns the file or the folder that `literal` in `file` refers to; undefined: none. */
  #placeOf(literal, file) {
    const [, workspace, module] = /^@slipway\/([\w-]+)(?:\/([^$]+))?$/.exec(literal) ?? [];
    if (workspace) return `${workspace}/src/${(module ?? 'index.js').replace(/js$/, 'ts')}`;
    // The beginning of a template; `${root}a/b` is a path from the root on.
    const [, isFromRoot, fixed, isCut] = /^(\$\{root\})?([^$]*)(\$\{)?/.exec(literal);
    const isSibling = /^[\w.-]+\.js$/.test(fixed);
    if (!isSibling && (!fixed.includes('/') || fixed.includes('\n'))) return undefined;
    const from =
      (isSibling || /^\.\.?\//.test(fixed)) && !isFromRoot
        ? path.dirname(file).replace(/^([\w-]+)\/src(\/|$)/, '$1/dist$2')
        : '';
    const target = path.normalize(path.join(from, isCut ? fixed.replace(/[^/]*$/, '') : fixed)).replace(/\/$/, '');
    const source = target.replace(/^([\w-]+)\/dist\//, '$1/src/').replace(/(?<=\/src\/.*)\.(m?)js$/, '.$1ts');
    if (this.#files.has(source)) return source;
    // A reference to a whole workspace, or to the file's own folder, is only the base of other paths.
    const isBroad = this.#folders.has(`${source}/src`) || /^[\w-]+\/src$/.test(source) || file.startsWith(`${source}/`);
    return this.#folders.has(source) && !isBroad ? `${source}/` : undefined;
  }

  /**
   * Returns the tests that the changed files can reach, or the reason why all must run. A removed source
   * needs no test: the compiler reports the files that still import it.
   */
  testsFor(changed) {
    const reached = new Set(ALWAYS);
    for (const file of changed) {
      if (USED_BY_ALL.some((form) => form.test(file))) return { everything: `every test runs by ${file}` };
      const isRemovedSource = !this.#files.has(file) && /\/src\/.*\.ts$/.test(file);
      const users = this.#reachableFrom(file);
      const isCovered = users.some(isTest) || CHECKED_BY_ALL.some((form) => form.test(file)) || isRemovedSource;
      if (!isCovered) return { everything: `no test is known to use ${file}` };
      for (const user of users) reached.add(user);
    }
    return { tests: [...reached].filter(isTest).sort() };
  }

  /** Returns the files that use `file`, directly or through others, and `file` itself. */
  #reachableFrom(file) {
    const found = new Set([file]);
    // The set grows during the loop.
    for (const used of found) {
      const names = [used];
      for (let folder = path.dirname(used); folder !== '.'; folder = path.dirname(folder)) names.push(`${folder}/`);
      for (const name of names) for (const user of this.#users.get(name) ?? []) found.add(user);
    }
    return [...found].filter((each) => this.#files.has(each));
  }
}

const isTest = (file) => file.endsWith('.test.ts');

/** Returns the strings of a source, except those in comments on lines of their own. */
function literalsOf(text) {
  const code = text.replaceAll(/^\s*(?:\/\/|\/?\*).*$/gm, '');
  return [...code.matchAll(/'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`/g)].map(
    ([, single, double, template]) => single ?? double ?? template,
  );
}

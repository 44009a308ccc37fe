/**
 * Runs the code blocks of the README and of docs/getting-started.md as a new user would: in order and twice, on a
 * machine that never ran Slipway. It does so as root in a folder that other accounts cannot enter, and as an ordinary
 * account in its home. It uses ports 4000 to 4002, as the README does, so they must be free. The blocks run literally,
 * except that a git server of this machine replaces GitHub.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { GitServer, Workshop } from '@slipway/kaniko-build-wrapper/testing.js';
import { isFreePort } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { FreshMachine, ORDINARY_USER, ROOT_USER, type User } from './machine.js';
import { blocksOf } from './readme-blocks.js';
import { type Expectation, type Page, runBlocks } from './run-blocks.js';
import type { Terminal } from './terminal.js';

const CHECKOUT = fileURLToPath(new URL('../../../', import.meta.url));
const PORTS = [4000, 4001, 4002];
const PASSES = 2;

const EXPECTED: Expectation[] = [
  ['/auth/register', () => /^healthy: http/m],
  ['create table', () => /"command":"ALTER PUBLICATION"/],
  ['createClient', (pass) => new RegExp(`${"\\{ id: \\d+, task: 'sail' \\}[\\s\\S]*".repeat(pass)}`)],
  ['kubectl apply', () => /condition met[\s\S]*eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+/],
  ['kubectl get projects', () => /shop[\s\S]*Ready/],
  ['npm stop', () => /Stopped; all data stays/],
];

const GETTING_STARTED = 'docs/getting-started.md';
const GETTING_STARTED_EXPECTED: Expectation[] = [
  ['/auth/register', () => /^healthy: http/m],
  ['create table', () => /"command":"ALTER PUBLICATION"/],
  ['index.html', () => /^open ~\/todos\/index.html in a browser$/m],
  ['rows of Ann', () => /^realtime: sail\nrows of Ann: true$/m],
  ['REPO=', () => /\/example\.git$/m],
  ['BUILD=', () => /^build \d+: Deployed$/m],
  ['SITE=', () => /^<h1>Ahoy<\/h1>\nopen http:\/\/[\w-]+\.localhost:4000\/ in a browser$/m],
];
const GITHUB_REPOSITORY = 'https://github.com/octocat/Spoon-Knife.git';
const AUTHORITY = 'slipway-test-authority.pem';

const blockedBy = await whyNot();
if (blockedBy) console.log(`# skipped: ${blockedBy}`);
else {
  let workshop: Workshop;
  let host: GitServer;
  test.before(async () => {
    workshop = new Workshop();
    workshop.repository('example', { 'index.html': '<h1>Ahoy</h1>\n' });
    host = await new GitServer(workshop).listen();
    for (const port of PORTS) assert.ok(await isFreePort(port), `port ${port} is taken: end its program`);
  });
  test.after(() => {
    host?.close();
    workshop?.close();
  });
  for (const user of [ROOT_USER, ORDINARY_USER]) {
    test(`the README works literally and twice for ${user.name} on a machine that never ran Slipway`, () =>
      readAndFollow(user, workshop.certificate().file, `${host.origin}/example.git`));
  }
}

/** Returns the blocks of the README: `first` start and use the platform, `last` stop it and start it again. */
function readmeParts() {
  const { blocks, shown } = blocksOf(readFileSync(path.join(CHECKOUT, 'README.md'), 'utf8'));
  const stop = blocks.findIndex(({ code }) => code === 'npm stop');
  assert.ok(stop > 0, 'no block of the README is `npm stop`');
  const part = (some: typeof blocks) => ({ page: 'README.md', blocks: some, expected: EXPECTED });
  return { first: part(blocks.slice(0, stop)), last: part(blocks.slice(stop)), shown };
}

/** Returns the blocks of docs/getting-started.md, with another repository. */
function gettingStarted(repository: string): Page {
  const text = readFileSync(path.join(CHECKOUT, GETTING_STARTED), 'utf8');
  const { blocks } = blocksOf(text.replace(GITHUB_REPOSITORY, repository));
  return { page: GETTING_STARTED, blocks, expected: GETTING_STARTED_EXPECTED };
}

/** `authority` is a file with the certificate of the git server that has `repository`. */
async function readAndFollow(user: User, authority: string, repository: string): Promise<void> {
  const { first, last, shown } = readmeParts();
  const machine = await FreshMachine.create(CHECKOUT, user, {
    files: { [AUTHORITY]: authority },
    variables: { SLIPWAY_ALLOWED_NETWORKS: '127.0.0.0/8', SLIPWAY_CA_FILE: `/etc/${AUTHORITY}` },
  });
  const { terminal } = machine;
  try {
    const before = await filesIn(terminal);
    for (let pass = 1; pass <= PASSES; pass++) {
      const started = await runBlocks(terminal, first, pass);
      await runBlocks(terminal, gettingStarted(repository), pass);
      await runBlocks(terminal, last, pass);
      // The README shows the steps of a first start.
      if (pass === 1) expectShown(started[0] ?? '', shown);
    }
    // The shell of a background block ends after `npm stop` does.
    await terminal.run('wait');
    assert.equal(await filesIn(terminal), before, 'a block must leave no file behind');
    const { output } = await terminal.run('ps -A -o pid=,args= | grep -v -e " bash" -e " ps " -e " grep "');
    assert.is(output.trim(), '', 'no process must be left');
  } finally {
    await machine.close();
  }
}

function expectShown(output: string, shown: string[]): void {
  const steps = (text: string) => [...text.matchAll(/^✓ (.*) \([\d.]+ s\)$/gm)].map(([, title]) => title);
  const promised = shown.flatMap(steps);
  if (promised.length === 0) return;
  assert.equal(steps(output), promised);
  // The total starts with the command, so it is at least the sum of its steps.
  const sum = [...output.matchAll(/^✓ .* \(([\d.]+) s\)$/gm)].reduce((all, [, each]) => all + Number(each), 0);
  const [, total] = /\(([\d.]+) s after npm start\)/.exec(output) ?? [];
  assert.ok(Number(total) >= sum - 0.5, `ready after ${total} s, and the steps took ${sum} s`);
}

/** Returns every file of the checkout, except installed, compiled and data files. */
async function filesIn(terminal: Terminal): Promise<string[]> {
  const ignored = ['node_modules', 'dist', '.slipway'].map((name) => `-name ${name} -prune -o`).join(' ');
  const { output } = await terminal.run(`find . ${ignored} -type f ! -name '*.tsbuildinfo' -print | sort`);
  return output.trim().split('\n');
}

async function whyNot(): Promise<string | undefined> {
  if (process.platform !== 'linux') return 'only Linux has the namespaces that a fresh machine is made of';
  if (process.getuid?.() !== 0) return 'a fresh machine is made by root alone';
  return undefined;
}

test.run();

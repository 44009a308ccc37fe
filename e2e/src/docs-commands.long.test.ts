/**
 * Runs the commands of the docs that are marked `run`, as a reader pastes them, against a platform on one machine. The
 * commands of one page run in one shell, twice. slipway/src/fresh runs the README's commands.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { missingWall } from '@slipway/kaniko-build-wrapper';
import { GitServer, Workshop } from '@slipway/kaniko-build-wrapper/testing.js';
import type { Page as BrowserPage } from 'playwright-core';
import { test } from 'uvu';
import { isBrowserInstalled, startBrowser } from './browser.js';
import { followPage, needsKubectl, type Page } from './docs-shell.js';
import { kubectlIsThere } from './kubectl.js';
import { type RunningPlatform, startPlatform } from './platform.js';

/** The blocks of docs/getting-started.md before those that build a site. */
const BLOCKS_OF_THE_APP = 4;
const cannotBuild = missingWall();
if (cannotBuild) console.log(`# skipped: the site of docs/getting-started.md: this machine is missing ${cannotBuild}`);

const GETTING_STARTED: Page = {
  page: 'docs/getting-started.md',
  ...(cannotBuild ? { only: BLOCKS_OF_THE_APP } : {}),
  blocks: [
    /healthy: http/,
    /"command":"ALTER PUBLICATION"/,
    /open ~\/todos\/index.html in a browser/,
    /^realtime: sail\nrows of Ann: true\n$/,
    /\/example\.git\n$/,
    /build \d+: Deployed\n$/,
    /^<h1>Ahoy<\/h1>\nopen http:\/\/[\w-]+\.localhost:\d+\/ in a browser\n$/,
  ],
};

const PAGES: Page[] = [
  {
    page: 'docs/api.md',
    blocks: [
      /"status":"(provisioning|healthy)"/,
      /"name":"shop".*"service_role_key":null/,
      /condition met[\s\S]*healthy/,
      /patched[\s\S]*patched[\s\S]*condition met/,
      /^https:\/\/shop\.example\.com\nnull\n$/,
      /^\{"items":\[.*\]\}\n$/,
      /"rows":\[\{"id":1,"title":"Write the docs"\}\]/,
    ],
  },
  {
    page: 'docs/storage.md',
    needsReadme: true,
    blocks: [
      /"command":"CREATE POLICY"/,
      /^Ahoy\n\[ 'hello.txt' \]\nAhoy\n$/,
      /notes\/[\w-]+\/hello\.txt[\s\S]*Ahoy by curl[\s\S]*not_found/,
    ],
  },
  { page: 'docs/functions.md', needsReadme: true, blocks: [/"status":"deployed".*hello$/] },
];

let platform: RunningPlatform;
let home: string;
let workshop: Workshop;
let host: GitServer;

test.before(async () => {
  // The server replaces GitHub, which tests can't reach.
  workshop = new Workshop();
  workshop.repository('example', { 'index.html': '<h1>Ahoy</h1>\n' });
  host = await new GitServer(workshop).listen();
  GETTING_STARTED.replace = [['https://github.com/octocat/Spoon-Knife.git', `${host.origin}/example.git`]];
  platform = await startPlatform(undefined, {
    SLIPWAY_SERVICES_SHARED: 'all',
    ...host.settings,
  });
  home = await mkdtemp(path.join(tmpdir(), 'slipway-docs-'));
});
test.after(async () => {
  await platform?.remove();
  host?.close();
  workshop?.close();
  await rm(home, { recursive: true, force: true });
});

for (const page of [GETTING_STARTED, ...PAGES]) {
  // Without kubectl these tests count as skipped.
  const runs = needsKubectl(page) && !kubectlIsThere ? test.skip : test;
  runs(`the commands of ${page.page} work literally and twice`, () => followPage(page, platform, home));
}

const inBrowser = isBrowserInstalled ? test : test.skip;
inBrowser('the app of docs/getting-started.md shows a task in a second window, but not to another user', async () => {
  const file = pathToFileURL(path.join(home, 'todos/index.html')).href;
  // Windows of one browser share a session, so the other user has another browser.
  const [browser, strangers] = [await startBrowser(), await startBrowser()];
  try {
    const first = await signIn(await browser.context.newPage(), file, 'cara@example.com');
    const second = await signIn(await browser.context.newPage(), file, 'cara@example.com');
    const other = await signIn(await strangers.context.newPage(), file, 'dan@example.com');
    await first.fill('[name=task]', 'paint the hull');
    await first.click('#add button');
    await second.waitForSelector('li:has-text("paint the hull")');
    await other.fill('[name=task]', 'my own');
    await other.click('#add button');
    await other.waitForSelector('li:has-text("my own"):only-child');
  } finally {
    await Promise.all([browser.close(), strangers.close()]);
  }
});

async function signIn(window: BrowserPage, file: string, email: string): Promise<BrowserPage> {
  await window.goto(file);
  await window.fill('[name=email]', email);
  await window.fill('[name=password]', 'a long password');
  await window.click('#sign-in button');
  await window.waitForSelector('#add:not([hidden])');
  return window;
}

test.run();

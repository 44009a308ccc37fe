import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { blocksOf } from './readme-blocks.js';

const README = new URL('../../../README.md', import.meta.url);

/** Blocks of the README that are not run on the fresh machine, by their first line. */
const NOT_HERE: Record<string, string> = {
  'npm test': 'the other sets of tests run it',
  'unset KUBECONFIG ': 'it needs docker and kind; the tests of a cluster install the same manifests',
  'apiVersion: slipway.dev/v1alpha1': 'a project of a cluster; the tests of a cluster apply such ones',
};

test('every code block of the README has a mark, and the skipped blocks are listed', () => {
  const { blocks } = blocksOf(readFileSync(README, 'utf8'));
  const left = blocks.filter(({ mark }) => mark.kind === 'not here');
  const known = Object.keys(NOT_HERE);
  assert.equal(
    left.map(({ code }) => known.find((begin) => code.startsWith(begin)) ?? code),
    known,
  );
});

test('every code block of the README that is run is in the language of the shell', () => {
  const { blocks } = blocksOf(readFileSync(README, 'utf8'));
  const others = blocks.filter(({ mark, language }) => mark.kind !== 'not here' && language !== 'sh');
  assert.equal(others, []);
});

for (const [name, variables, answered] of [
  ['ID is empty', `ID= ME='authorization: Bearer good'`, 404],
  ['ME is empty', 'ID=1 ME=', 401],
] as const) {
  test(`the README’s wait_for fails at once and names the block to run again when ${name}`, async () => {
    const { url, close } = await statusServer();
    const { status, stdout, stderr } = await runInShell(`API=${url} ${variables}\n${waitFor()}\nwait_for healthy`);
    close();
    assert.is(status, 1);
    assert.is(stdout, '');
    assert.match(stderr, /^no healthy for ID='1?': run the block that sets ID and ME again/);
    assert.ok(stderr.includes(`"status":${answered}`), stderr);
  });
}

test('the README’s wait_for fails at once when ID is empty and the platform is unreachable', async () => {
  const { url, close } = await statusServer();
  close();
  const started = Date.now();
  const { status, stderr } = await runInShell(`API=${url} ID= ME=\n${waitFor()}\nwait_for healthy`);
  assert.is(status, 1);
  assert.is(stderr, "no healthy for ID='': run the block that sets ID and ME again. The last answer: none\n");
  assert.ok(Date.now() - started < 10_000);
});

test('the README’s wait_for ends without output when the status contains the text', async () => {
  const { url, close } = await statusServer();
  const lines = [`API=${url} ID=1 ME='authorization: Bearer good'`, waitFor(), 'wait_for healthy'];
  const { status, stdout } = await runInShell(lines.join('\n'));
  close();
  assert.equal([status, stdout], [0, '']);
});

test('a code block without a mark is rejected with its line', () => {
  assert.throws(() => blocksOf('# Title\n\n```sh\nnpm start\n```\n'), /^line 3: the code block has no mark/);
});

test('a parsed code block has its mark, language and code', () => {
  const { blocks, shown } = blocksOf(
    '<!-- block: background, ready at "is ready" -->\n```sh\nnpm start\n```\n\n```text\nready\n```\n',
  );
  const mark = { kind: 'background', ready: 'is ready' };
  assert.equal(blocks, [{ mark, language: 'sh', line: 2, code: 'npm start' }]);
  assert.equal(shown, ['ready']);
});

/** Returns the function in the README. */
function waitFor(): string {
  const { blocks } = blocksOf(readFileSync(README, 'utf8'));
  const found = blocks.map(({ code }) => /^wait_for\(\) \{[\s\S]*?^\}$/m.exec(code)?.[0]).find(Boolean);
  assert.ok(found);
  return found;
}

/** Responds with a status for project 1 and a good token, and otherwise with problem documents, as the API does. */
async function statusServer() {
  const server = createServer(({ url, headers }, response) => {
    const isKnown = headers.authorization === 'Bearer good';
    const status = url !== '/projects/1/status' ? 404 : isKnown ? 200 : 401;
    response.writeHead(status).end(JSON.stringify(status === 200 ? { status: 'healthy' } : { status }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() };
}

async function runInShell(script: string) {
  const child = spawn('bash', ['-c', script], { timeout: 20_000 });
  const [stdout, stderr, [status]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { stdout, stderr, status };
}

test.run();

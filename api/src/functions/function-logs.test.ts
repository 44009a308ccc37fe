/** Tests the logs of functions with a fake data plane, which returns the status and body that a test sets. */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Problem } from '../http/problem.js';
import type { ApiSettings } from '../settings/settings.js';
import { FunctionLogs } from './function-logs.js';

const folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
const functionsSocket = path.join(folder, 'functions.sock');
const LINES = [{ id: 1, level: 'info', message: 'hello' }];
let answer = { status: 200, body: '' };
const server = createServer((_, outgoing) => outgoing.writeHead(answer.status).end(answer.body));
const logs = new FunctionLogs({ functionsSocket } as ApiSettings);
const read = () => logs.read('one', 'hello', {});

test.before(() => new Promise<void>((resolve) => server.listen(functionsSocket, resolve)));
test.after(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  rmSync(folder, { recursive: true, force: true });
});

test('function logs come from the data plane, and a function unknown to it has an empty log', async () => {
  answer = { status: 200, body: JSON.stringify(LINES) };
  assert.equal(await read(), LINES);
  answer = { status: 404, body: '{"message":"no such function is deployed"}' };
  assert.equal(await read(), []);
});

test('function logs of a project with a machine of its own come from that machine', async () => {
  answer = { status: 200, body: JSON.stringify(LINES) };
  const elsewhere = new FunctionLogs({} as ApiSettings);
  assert.equal(await elsewhere.read('one', 'hello', {}, functionsSocket), LINES);
  const gone = await logs.read('one', 'hello', {}, `${functionsSocket}.gone`).catch((error: Problem) => error);
  assert.is((gone as Problem).status, 503);
});

for (const status of [401, 500]) {
  test(`function logs return 503 if the data plane answers ${status}, and the API’s log has the reason`, async () => {
    answer = { status, body: '{"message":"no"}' };
    const refused = await read().then(
      () => assert.unreachable('there are lines'),
      (error: unknown) => error,
    );
    assert.instance(refused, Problem);
    const { status: responded, message, cause } = refused as Problem;
    assert.is(responded, 503);
    assert.match(message, 'can not be read now');
    assert.match((cause as Error).message, status === 401 ? 'different tokens' : '500');
  });
}

test.run();

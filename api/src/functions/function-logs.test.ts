/** In the data plane's place stands a server that answers with the status and body that the test says. */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Problem } from '../http/problem.js';
import type { ApiSettings } from '../settings.js';
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

test('logs are those that the data plane has, and none of a function that it does not know', async () => {
  answer = { status: 200, body: JSON.stringify(LINES) };
  assert.equal(await read(), LINES);
  answer = { status: 404, body: '{"message":"no such function is deployed"}' };
  assert.equal(await read(), []);
});

for (const status of [401, 500]) {
  test(`a data plane that answers ${status} is no function without logs: 503 says so, and the API’s log says why`, async () => {
    answer = { status, body: '{"message":"no"}' };
    const refused = await read().then(
      () => assert.unreachable('there are lines'),
      (error: unknown) => error,
    );
    assert.instance(refused, Problem);
    const { status: said, message, cause } = refused as Problem;
    assert.is(said, 503);
    assert.match(message, 'can not be read now');
    assert.match((cause as Error).message, status === 401 ? 'another token' : '500');
  });
}

test.run();

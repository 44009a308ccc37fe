import { Writable } from 'node:stream';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Target } from '../conformance/target.js';
import { startTestApiServer, type TestApiServer } from '../testing.js';

const SECRETS = '/api/v1/secrets';
const lines: Record<string, unknown>[] = [];
const refused = () => lines.filter(({ path, leftOut }) => path === SECRETS || leftOut !== undefined);
let server: TestApiServer;
let target: Target;

test.before(async () => {
  const sink = new Writable({ write: (line, _, done) => done(void lines.push(JSON.parse(String(line)))) });
  server = await startTestApiServer({ log: pino({ level: 'info' }, sink) });
  target = new Target('ours', server.kubeconfig);
});

test.after(async () => {
  target?.close();
  await server?.close();
});

test('a wrong token is logged in one line with path and reason, without token and query', async () => {
  assert.is((await target.send('GET', SECRETS)).code, 200);
  assert.equal(refused(), []);
  const headers = { authorization: 'Bearer a-canary-of-the-test' };
  const { code } = await target.send('GET', `${SECRETS}?token=canary`, undefined, { anonymous: true, headers });
  assert.is(code, 401);
  const [line, ...others] = refused();
  assert.equal(others, []);
  assert.equal([line?.method, line?.reason, line?.address], ['GET', 'unknown-token', '127.0.0.1']);
  assert.not.match(JSON.stringify(lines), /canary/);
});

test('the log has only some lines of a flood of rejections, and counts the others', async () => {
  lines.length = 0;
  const calls = 200;
  await Promise.all(
    Array.from({ length: calls }, () => target.send('GET', SECRETS, undefined, { anonymous: true, headers: {} })),
  );
  // The number of omitted lines is logged at the server's end, if not earlier.
  await server.restart();
  const counted = refused().reduce((sum, { leftOut }) => sum + ((leftOut as number | undefined) ?? 0), 0);
  const named = refused().filter(({ reason }) => reason === 'no-token').length;
  assert.ok(counted > 0, 'not each has a line');
  assert.is(named + counted, calls);
});

test.run();

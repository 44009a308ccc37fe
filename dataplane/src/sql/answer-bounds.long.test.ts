/**
 * Tests the limits on bytes that a tenant's database sends. The limits apply before a message is buffered, and other
 * projects in the process are not affected.
 */
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestCluster, type TestCluster, type TestProject } from '../testing/project.js';
import { ANSWER_LIMITS, HeldAnswer } from './answer-memory.js';
import { boundedSocket } from './bounded-socket.js';
import { MessageReader } from './decoder.js';
import { AnswerTooLargeError, ConnectionError, Pool } from './pool.js';
import { Session } from './session.js';

const test = suite('bounds of answers');
const MIB = 1024 * 1024;
let cluster: TestCluster;
let mallory: TestProject;
let victim: TestProject;

test.before(async () => {
  cluster = await startTestCluster();
  [mallory, victim] = [await cluster.project('mallory'), await cluster.project('victim')];
});
test.after(() => cluster?.close());

/**
 * Returns the growth of the process' memory while `work` runs, and the number of another project's successful
 * statements.
 */
async function besides(work: (pool: Pool) => Promise<void>, limits = {}): Promise<{ grown: number; answered: number }> {
  const [hostile, neighbour] = [new Pool(mallory.authenticator, limits), new Pool(victim.authenticator)];
  globalThis.gc?.();
  const before = process.memoryUsage().rss;
  let grown = 0;
  let answered = 0;
  let isOver = false;
  const going = (async () => {
    while (!isOver) {
      const [result] = await neighbour.batch([{ text: 'select $1::int', values: [answered] }]);
      assert.is(String(result?.rows[0]?.[0]), String(answered++));
      grown = Math.max(grown, process.memoryUsage().rss - before);
    }
  })();
  try {
    await work(hostile);
  } finally {
    isOver = true;
    await going;
    await Promise.all([hostile.close(), neighbour.close()]);
  }
  return { grown, answered };
}

const failureOf = (pool: Pool, text: string): Promise<Error> =>
  pool.batch([{ text }], { repeatable: true }).then(
    () => new Error('answered'),
    (error: Error) => error,
  );

const FLOODS: [string, string][] = [
  ['a raised message of 200 MB', `do $$ begin raise '%', repeat('x', 200000000); end $$`],
  ['a raised detail of 200 MB', `do $$ begin raise 'x' using detail = repeat('x', 200000000); end $$`],
  ['a notice of 200 MB', `do $$ begin raise notice '%', repeat('x', 200000000); end $$`],
  ['a flood of notices', `do $$ begin for i in 1..100000 loop raise notice '%', repeat('x', 4000); end loop; end $$`],
  ['a row of 300 MB', `select repeat('x', 300000000)`],
  ['300 rows of 1 MB', `select repeat('x', 1000000) from generate_series(1, 300)`],
  ['a million rows of 400 bytes', `select repeat('x', 400) from generate_series(1, 1000000)`],
];
for (const [what, text] of FLOODS) {
  test(`${what} ends only its own statement, within a limit of memory`, async () => {
    const { grown, answered } = await besides(async (pool) => {
      const error = await failureOf(pool, text);
      assert.instance(error, AnswerTooLargeError, String(error));
      assert.is((error as AnswerTooLargeError).code, '54000');
      const [after] = await pool.batch([{ text: 'select 1' }], { repeatable: true });
      assert.is(String(after?.rows[0]?.[0]), '1');
    });
    assert.ok(answered > 0);
    assert.ok(grown < 3 * ANSWER_LIMITS.answerBytes, `${Math.round(grown / MIB)} MiB`);
  });
}

test('a batch behind another batch with too large a result is repeated, or fails as on a lost connection', async () => {
  const pool = new Pool(mallory.authenticator, { connections: 1 });
  try {
    await pool.batch([{ text: 'select 1' }]);
    const [large, repeated, failed] = await Promise.all([
      failureOf(pool, `select repeat('x', 100000000)`),
      pool.batch([{ text: 'select 2' }], { repeatable: true }).then(([result]) => String(result?.rows[0]?.[0])),
      pool.batch([{ text: 'select 3' }]).then(
        ([result]) => String(result?.rows[0]?.[0]),
        (error: Error) => error,
      ),
    ]);
    assert.instance(large, AnswerTooLargeError);
    assert.is(repeated, '2');
    assert.ok(failed === '3' || (failed instanceof ConnectionError && !(failed instanceof AnswerTooLargeError)));
  } finally {
    await pool.close();
  }
});

test('large results of one project share its budget and leave memory for results of another project', async () => {
  const { grown } = await besides(
    async (pool) => {
      const neighbour = new Pool(victim.authenticator);
      const text = `select repeat('x', 40000000)`;
      const outcomes = Promise.all(Array.from({ length: 8 }, () => failureOf(pool, text)));
      const [large] = await neighbour.batch([{ text }]);
      assert.is(large?.rows[0]?.[0]?.length, 40_000_000);
      for (const { message } of await outcomes) assert.match(message, /^answered$|too many large answers/);
      assert.is((await failureOf(pool, text)).message, 'answered');
      await neighbour.close();
    },
    { connections: 8 },
  );
  assert.ok(grown < 3 * ANSWER_LIMITS.allBytes, `${Math.round(grown / MIB)} MiB`);
});

for (const [what, text, isCounted] of [
  ['notices', `do $$ begin for i in 1..80 loop raise notice '%', repeat('x', 200000); end loop; end $$`, false],
  ['rows', `select repeat('x', 200000) from generate_series(1, 80)`, true],
] as const) {
  test(`a session ${isCounted ? 'counts' : 'does not count'} ${what} against the shared budgets`, async () => {
    const reserved = new HeldAnswer(mallory.authenticator);
    let most = 0;
    const session = await Session.open(mallory.authenticator, {
      connectTimeoutMs: 60_000,
      statementTimeoutMs: 60_000,
      maxStatements: 1,
      holdAnswer: () => reserved,
      onNotification: () => undefined,
      onReady: () => undefined,
      onClose: () => undefined,
    });
    const grow = reserved.grow.bind(reserved);
    reserved.grow = (bytes) => {
      most += bytes;
      return grow(bytes);
    };
    await session.run([{ text }]);
    session.close();
    assert.is(most > 0, isCounted);
    assert.is(reserved.bytes, 0);
  });
}

test('results of all pools together use at most the project’s share, and release all of it', () => {
  const large = new HeldAnswer(mallory.authenticator);
  assert.ok(large.grow(ANSWER_LIMITS.projectBytes));
  for (const login of [mallory.authenticator, mallory.authAdmin]) assert.not.ok(new HeldAnswer(login).grow(1));
  const neighbour = new HeldAnswer(victim.authenticator);
  assert.ok(neighbour.grow(1));
  neighbour.end();
  large.end();
  large.end();
  assert.ok(large.grow(1));
  large.end();
});

test('the results of one account’s projects leave memory for results of other accounts', () => {
  const of = (database: string, account: string) => new HeldAnswer({ ...mallory.authenticator, database, account });
  const both = [of('one', 'mallory'), of('two', 'mallory')];
  const { projectBytes, accountBytes } = ANSWER_LIMITS;
  assert.ok(both[0]?.grow(projectBytes));
  assert.ok(both[1]?.grow(accountBytes - projectBytes));
  assert.not.ok(both[1]?.grow(1));
  const other = of('three', 'ann');
  assert.ok(other.grow(1));
  for (const each of [...both, other]) each.end();
});

test('endless notifications reach a listener without being buffered', async () => {
  let received = 0;
  const pool = new Pool(mallory.authenticator, {}, { listen: ['flood'], onNotification: () => void received++ });
  const owner = new pg.Client(mallory.owner);
  await owner.connect();
  try {
    await pool.batch([{ text: 'select 1' }]);
    for (let round = 0; round < 20; round++) {
      await owner.query(`select pg_notify('flood', repeat('x', 7990) || i) from generate_series(1, 1000) i`);
      // The queue of the server has room for 4,096 of them, and a busy machine reads them late.
      while (received < 1_000 * (round - 1)) await pool.batch([{ text: 'select 1' }]);
    }
    while (received < 20_000) await pool.batch([{ text: 'select 1' }]);
  } finally {
    await owner.end();
    await pool.close();
  }
});

test('a client of pg on a bounded socket fails if the database sends more', async () => {
  const client = new pg.Client({ ...mallory.owner, stream: () => boundedSocket(MIB) });
  client.on('error', () => undefined);
  await client.connect();
  assert.is((await client.query('select 1 as one')).rows[0].one, 1);
  const error = await client.query(`select repeat('x', 50000000)`).catch((caught) => caught);
  assert.instance(error, Error);
  await client.end().catch(() => undefined);
});

test('a reader announces each message once and drops bytes beyond its limit, however the bytes are split', () => {
  const message = (type: string, body: string) => {
    const header = Buffer.alloc(5);
    header.write(type);
    header.writeInt32BE(body.length + 4, 1);
    return Buffer.concat([header, Buffer.from(body)]);
  };
  const bodies = ['a', '', 'b'.repeat(50), 'tail', 'c'.repeat(31), 'end'];
  const stream = Buffer.concat(bodies.map((body) => message('D', body)));
  for (let size = 1; size <= stream.length; size++) {
    const [seen, announced]: [string[], number[]] = [[], []];
    const reader = new MessageReader(
      (_, body) => void seen.push(body.toString()),
      (_, length) => {
        announced.push(length);
        return length > 10 ? 3 : undefined;
      },
    );
    for (let at = 0; at < stream.length; at += size) reader.push(Buffer.from(stream.subarray(at, at + size)));
    assert.equal(seen, ['a', '', 'bbb', 'tail', 'ccc', 'end'], `by ${size}`);
    assert.equal(
      announced,
      bodies.map(({ length }) => length),
      `by ${size}`,
    );
  }
});

test.run();

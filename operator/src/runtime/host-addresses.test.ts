import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { HostAddresses } from './host-addresses.js';

/** Returns the addresses with a resolver whose look-ups the test ends, and a clock that it sets. */
function start() {
  const running = new Map<string, PromiseWithResolvers<readonly string[]>>();
  const [asked, changed] = [[] as string[], [] as string[]];
  const clock = { now: 0 };
  const lookup = (name: string) => {
    asked.push(name);
    const ending = Promise.withResolvers<readonly string[]>();
    running.set(name, ending);
    return ending.promise;
  };
  const addresses = new HostAddresses(
    lookup,
    (ref) => changed.push(ref),
    () => clock.now,
  );
  const end = async (name: string, found: readonly string[] | Error) => {
    const ending = running.get(name);
    assert.ok(ending, `${name} is not being resolved`);
    running.delete(name);
    if (found instanceof Error) ending.reject(found);
    else ending.resolve(found);
    await turn();
  };
  const known = (name: string) => addresses.of('shop', [])(name);
  return { addresses, asked, changed, clock, end, known };
}

test('names are resolved one at a time, in turns of the projects, and each project is called once', async () => {
  const { addresses, asked, changed, end, known } = start();
  addresses.of('shop', ['a.example', 'b.example', 'c.example']);
  addresses.of('blog', ['d.example']);
  assert.equal(asked, ['a.example']);
  await end('a.example', ['10.0.0.1']);
  assert.equal(asked, ['a.example', 'd.example'], 'the other project is next');
  await end('d.example', ['8.8.8.8']);
  await end('b.example', []);
  assert.equal(changed, ['blog']);
  await end('c.example', new Error('ENOTFOUND'));
  assert.equal(changed, ['blog', 'shop']);
  assert.equal([known('a.example'), known('c.example'), known('e.example')], [['10.0.0.1'], [], undefined]);
});

test('a look-up that does not end delays nothing but other look-ups', async () => {
  const { addresses, asked, known } = start();
  addresses.of('shop', ['dead.example']);
  for (let look = 0; look < 3; look++) addresses.of('blog', ['live.example']);
  await turn();
  assert.equal(asked, ['dead.example']);
  assert.equal([known('dead.example'), known('live.example')], [undefined, undefined]);
  addresses.close();
});

test('a name is resolved again after ten minutes, and a name that failed after one', async () => {
  const { addresses, asked, changed, clock, end, known } = start();
  addresses.of('shop', ['a.example']);
  await end('a.example', ['8.8.8.8']);
  clock.now = 9 * 60_000;
  addresses.of('shop', ['a.example']);
  assert.is(asked.length, 1);
  clock.now = 11 * 60_000;
  assert.equal(addresses.of('shop', ['a.example'])('a.example'), ['8.8.8.8'], 'the last known one meanwhile');
  await end('a.example', ['8.8.8.8']);
  assert.equal(changed, ['shop'], 'the same addresses are no change');
  clock.now = 22 * 60_000;
  addresses.of('shop', ['a.example']);
  await end('a.example', ['127.0.0.1']);
  assert.equal(changed, ['shop', 'shop']);
  clock.now = 33 * 60_000;
  addresses.of('shop', ['a.example']);
  await end('a.example', new Error('EAI_AGAIN'));
  assert.equal(known('a.example'), ['127.0.0.1'], 'a name server that fails does not change the result');
  clock.now = 34.5 * 60_000;
  addresses.of('shop', ['a.example']);
  assert.is(asked.length, 5);
  addresses.close();
});

test('a project that asks again during its look-up gets the result of its later names', async () => {
  const { addresses, changed, end, known } = start();
  addresses.of('shop', ['a.example']);
  addresses.of('shop', ['a.example', 'b.example']);
  await end('a.example', ['8.8.8.8']);
  await end('b.example', ['10.0.0.1']);
  assert.equal(known('b.example'), ['10.0.0.1']);
  assert.equal(changed, ['shop']);
});

test('no look-up begins after close', async () => {
  const { addresses, asked, changed, end } = start();
  addresses.of('shop', ['a.example', 'b.example']);
  addresses.close();
  await end('a.example', ['10.0.0.1']);
  addresses.of('blog', ['c.example']);
  assert.equal([asked, changed], [['a.example'], []]);
});

test('more names than the cache holds are not resolved again and again', async () => {
  let count = 0;
  const lookup = async () => {
    count += 1;
    return ['192.0.2.1'];
  };
  const namesOf = (ref: string) => Array.from({ length: 32 }, (_, n) => `h${n}.${ref}.example`);
  let changes = 0;
  // A change reconciles the project, which requests its names again.
  const addresses = new HostAddresses(lookup, (ref) => {
    changes += 1;
    if (changes < 1_000) addresses.of(ref, namesOf(ref));
  });
  for (let n = 0; n < 130; n++) addresses.of(`p${n}`, namesOf(`p${n}`));
  for (let before = -1; count > before; ) {
    before = count;
    for (let turns = 0; turns < 100; turns++) await turn();
  }
  assert.equal([count, changes], [4_000, 130]);
  addresses.close();
});

test.run();

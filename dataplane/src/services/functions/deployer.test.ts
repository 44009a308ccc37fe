/** Tests that slow deploys of one project do not block deploys of others. */
import { chmodSync, copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { installedDeno, Launcher } from '@slipway/sandbox';
import { isAlive, parentOf, until } from '@slipway/testing';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkSource } from './check.js';
import { startTestFunctions, type TestFunctions } from './testing.js';

let functions: TestFunctions;
test.before(async () => {
  functions = await startTestFunctions({ bootMilliseconds: 60_000 });
});
test.after(() => functions?.close());

const HELLO = `Deno.serve(() => new Response('hello'));`;
/** Source of a function that responds once the project `gate` has a function `open`. */
const SLOW = `const gate = Deno.env.get('SUPABASE_URL').replace(/[^/]+$/, 'gate') + '/functions/v1/open';
  while ((await fetch(gate)).status !== 200) await new Promise((resolve) => setTimeout(resolve, 20));
  ${HELLO}`;
const READY = { state: 'ready' };

test('a project’s third slow deploy, or a function’s second, gets "busy", and other projects can deploy', async () => {
  assert.equal(await functions.deploy('crowd', 'served', HELLO, { version: 1 }), READY);
  const slow = ['a', 'b'].map((name) => functions.deploy('crowd', name, SLOW));
  for (const name of ['a', 'b', 'c']) {
    assert.is((await functions.deploy('crowd', name, HELLO)).state, 'busy', name);
  }
  assert.equal(await functions.deploy('crowd', 'served', HELLO, { version: 1 }), READY);
  assert.equal(await functions.deploy('gate', 'open', HELLO), READY);
  assert.equal(await Promise.all(slow), [READY, READY]);
  assert.equal(await functions.deploy('crowd', 'c', HELLO), READY);
});

test('a start without enough memory is no error of the source, and the former version stays served', async () => {
  const PID = 'Deno.serve(() => new Response(String(Deno.pid)));';
  assert.equal(await functions.deploy('lost', 'start', PID), READY);
  const answer = async () => Number(await (await fetch(`${functions.url('lost')}/start`)).text());
  const pid = await answer();
  const slow = `console.log('begun'); await new Promise((go) => setTimeout(go, 10_000)); ${PID}`;
  const deploying = functions.deploy('lost', 'start', slow);
  await until(() => functions.logs('lost', 'start').some(({ message }) => message === 'begun'), 'its begin');
  process.kill(parentOf(pid), 'SIGKILL');
  assert.equal(await deploying, { state: 'busy', message: 'Function could not be started now' });
  await until(() => !isAlive(pid), 'the end of what was served');
  assert.is.not(await answer(), pid);
});

test('the timeout of a check covers parsing and fetching together', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
  const launcher = new Launcher(pino({ level: 'silent' }));
  const program = path.join(folder, 'slow-deno');
  // Deno is copied here, because an unprivileged account can't read the program's folder.
  copyFileSync(installedDeno(), path.join(folder, 'deno'));
  writeFileSync(program, `#!/bin/sh\nsleep 2\nexec '${folder}/deno' "$@"\n`);
  chmodSync(program, 0o755);
  writeFileSync(path.join(folder, 'index.ts'), HELLO);
  const cache = path.join(folder, 'cache');
  const slow = {
    deno: { program, launcher },
    source: folder,
    cache,
    account: undefined,
    milliseconds: 3_500,
    cacheMegabytes: 100,
  };
  try {
    assert.match((await checkSource(slow))[0]?.message ?? '', /could not be fetched in time/);
    assert.equal(await checkSource({ ...slow, milliseconds: 60_000 }), []);
  } finally {
    launcher.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

test('a deploy whose imports exceed the project’s cache is rejected, and functions keep their imports', async () => {
  const small = await startTestFunctions({ cacheMegabytes: 4 });
  const padding = (width: number) =>
    `import leftPad from 'npm:left-pad@1.3.0'; Deno.serve(() => new Response(leftPad('7', ${width}, '0')));`;
  assert.equal(await small.deploy('one', 'kept', padding(3)), READY);
  const large = `import { createClient } from 'npm:@supabase/supabase-js@2';
    Deno.serve(() => new Response(typeof createClient));`;
  const outcome = await small.deploy('one', 'large', large);
  assert.match(JSON.stringify(outcome), /refused.*more than 4 MiB/);
  // A changed environment starts another isolate, which reads its imports again.
  small.setEnvironment('one', { ANOTHER: 'isolate' });
  assert.is(await (await fetch(`${small.url('one')}/kept`)).text(), '007');
  assert.equal(await small.deploy('one', 'more', padding(5)), READY);
  assert.is(await (await fetch(`${small.url('one')}/more`)).text(), '00007');
  await small.close();
});

for (const [phase, lookMilliseconds] of [
  ['check', 10],
  ['start', 2_000],
] as const) {
  test(`a ${phase} ended because all functions use too much memory is no error of the source`, async () => {
    const full = await startTestFunctions({ togetherMegabytes: 0, lookMilliseconds });
    const slow = `await new Promise((go) => setTimeout(go, 10_000)); ${HELLO}`;
    const busy = { state: 'busy', message: 'Functions use too much memory together now' };
    assert.equal(await full.deploy('crowd', 'innocent', slow), busy);
    await full.close();
  });
}

test.run();

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { LogFile } from './log-file.js';
import { Program } from './program.js';

test('a program that the system could not start is started again', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
  const main = path.join(folder, 'main.mjs');
  writeFileSync(main, `console.log('up'); setInterval(() => {}, 1000);`);
  // The variable is larger than a system allows for one process, so the start fails as it does without memory.
  const environment: Record<string, string> = { LARGE: 'x'.repeat(8 * 2 ** 20) };
  const ends: string[] = [];
  const log = new LogFile(path.join(folder, 'main.log'));
  const isUp = new Promise<void>((resolve) => {
    const write = log._write.bind(log);
    log._write = (chunk, encoding, done) => {
      resolve();
      write(chunk, encoding, done);
    };
  });
  const onEnd = (how: string) => {
    ends.push(how);
    delete environment.LARGE;
  };
  const program = new Program({ name: 'api', main, environment, nodeFlags: [], log, onEnd });
  program.start();
  await isUp;
  assert.equal(ends, ['spawn E2BIG']);
  assert.is(program.failures, 1);
  await program.stop(10_000);
  rmSync(folder, { recursive: true });
});

test('a program that hangs is started again, and the logged reason is the hang', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
  const [main, mark] = [path.join(folder, 'main.mjs'), path.join(folder, 'hung')];
  writeFileSync(
    main,
    `import { existsSync, writeFileSync } from 'node:fs';
     import { startWatchdog, underWay } from '${import.meta.resolve('@slipway/program')}';
     startWatchdog({ program: 'api', limitMs: 300 });
     if (existsSync('${mark}')) console.log('up again');
     else {
       writeFileSync('${mark}', '');
       setTimeout(() => { underWay('first', 'rest request'); for (;;); }, 1);
     }
     setInterval(() => {}, 1000);`,
  );
  const log = new LogFile(path.join(folder, 'main.log'));
  const written: string[] = [];
  const isUpAgain = new Promise<void>((resolve) => {
    const write = log._write.bind(log);
    log._write = (chunk, encoding, done) => {
      if (written.push(chunk.toString()) === 2) resolve();
      write(chunk, encoding, done);
    };
  });
  const ends: string[] = [];
  const program = new Program({
    name: 'api',
    main,
    environment: {},
    nodeFlags: [],
    log,
    onEnd: (how) => ends.push(how),
  });
  program.start();
  await isUpAgain;
  assert.equal(ends, ['exit code 86: it hung, its main thread used 10 s of processor time in one turn']);
  assert.match(written[0] as string, /"project":"first","operation":"rest request".*"msg":"program hung"/);
  assert.is(written[1], 'up again\n');
  await program.stop(10_000);
  rmSync(folder, { recursive: true });
});

test.run();

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const MAIN = fileURLToPath(new URL('./main.js', import.meta.url));

test('a missing document is named in one line, and the program ends', async () => {
  const child = spawn(process.execPath, [MAIN], {
    env: {
      SLIPWAY_MACHINE_SERVICE: 'rest',
      SLIPWAY_MACHINE_PROJECT: '/nonexistent/project.json',
      SLIPWAY_LISTEN: '127.0.0.1:0',
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let text = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  assert.is(await new Promise((resolve) => child.once('close', resolve)), 1);
  assert.is(text, 'machine-service: /nonexistent/project.json can not be read (ENOENT)\n');
});

test.run();

import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

test('a folder without permissions is removed too', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'slipway-closed-'));
  const inner = path.join(folder, 'own', 's');
  mkdirSync(path.join(inner, 'deeper'), { recursive: true });
  writeFileSync(path.join(inner, 'x'), '');
  for (const closed of [path.join(inner, 'deeper'), inner]) chmodSync(closed, 0);
  const module = new URL('./removed-folder.js', import.meta.url).href;
  const script = `import { removeFolder } from ${JSON.stringify(module)};
    if (!removeFolder(${JSON.stringify(folder)})) process.exit(1);`;
  const command = [process.execPath, '--input-type=module', '-e', script];
  // Root ignores permissions, unless it has dropped its capabilities.
  if (process.getuid?.() === 0) command.unshift('setpriv', '--bounding-set=-all', '--inh-caps=-all', '--');
  execFileSync(command[0] as string, command.slice(1));
  assert.not.ok(existsSync(folder));
});

test.run();

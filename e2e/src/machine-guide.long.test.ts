/** Runs the commands of the guide of machines, as a reader pastes them, against real machines. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { suite } from 'uvu';
import { followPage } from './docs-shell.js';
import { kubectlIsThere } from './kubectl.js';
import { startPlatform } from './platform.js';
import { cloudUrl, TestCloud } from './test-cloud.js';

const guide = suite('the guide of machines');
if (!kubectlIsThere) console.log('# skipped: there is no kubectl');
const test = cloudUrl && kubectlIsThere ? guide : guide.skip;

test('the commands of docs/guides/machine-per-customer.md have the documented effect', async () => {
  const cloud = new TestCloud();
  const home = await mkdtemp(path.join(tmpdir(), 'slipway-guide-'));
  const platform = await startPlatform(undefined, cloud.settings);
  try {
    await followPage(
      {
        page: 'docs/guides/machine-per-customer.md',
        passes: 1,
        blocks: [
          /available\n$/,
          /ready: reserve [\d.]+ s, create [\d.]+ s, boot /,
          /GRANT|CREATE[\s\S]*\[\] 200\n[\s\S]* 200\npostgresql:\/\/postgres\.\w+:…@[\d.]+:6543\//,
          /^cpx\d2\n\d+\n$/,
          /kept[\s\S]*waiting\n[\s\S]*"healthy"\n[\s\S]*kept[\s\S]*"ok":true[\s\S]*"healthy"[\s\S]*kept[\s\S]*\n204\n$/,
          /^\{"status":"suspended"\n503\n\{"status":"healthy"\n200\n/,
          /^20\d\ndeleted\n$/,
        ],
      },
      platform,
      home,
    );
  } finally {
    await platform.remove();
    await cloud.close();
    await rm(home, { recursive: true, force: true });
  }
});

guide.run();

import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { FileStore } from './files.js';

test('the collector of files lists content in pages', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-pages-'));
  try {
    const versions = ['aa', 'bb'].flatMap((start) =>
      Array.from({ length: 3 }, () => `${start}${randomUUID().slice(2)}`),
    );
    for (const version of versions) {
      const place = path.join(folder, 'shop', 'content', version.slice(0, 2));
      await mkdir(place, { recursive: true });
      await writeFile(path.join(place, version), 'abc');
    }
    const listed = new FileStore(folder).versions('shop')[Symbol.asyncIterator]();
    const first = await listed.next();
    const start = first.value.version.slice(0, 2);
    await rm(path.join(folder, 'shop', 'content', start === 'aa' ? 'bb' : 'aa'), { recursive: true });
    let count = 1;
    for (let next = await listed.next(); !next.done; next = await listed.next()) count++;
    assert.is(count, 3, 'it had not read the second folder');
    assert.is(first.value.bytes, 3);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test.run();

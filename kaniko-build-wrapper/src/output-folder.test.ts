/** Tests the messages about a missing or empty output folder, with real folders. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { outputFolder } from './output-folder.js';
import { Refused } from './request.js';

let source: string;
test.before.each(() => {
  source = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
});
test.after.each(() => rmSync(source, { recursive: true, force: true }));

const make = (...folders: string[]) => {
  for (const folder of folders) mkdirSync(path.join(source, folder), { recursive: true });
};
const refusalOf = (outputDir: string, root = source): string => {
  try {
    return outputFolder(source, root, outputDir);
  } catch (error) {
    assert.instance(error, Refused);
    return (error as Error).message;
  }
};

test('the output folder is found below root_dir', () => {
  make('apps/web/dist');
  writeFileSync(path.join(source, 'apps/web/dist/index.html'), 'x');
  assert.ok(refusalOf('dist', path.join(source, 'apps/web')).endsWith('/apps/web/dist'));
});

test('a missing output folder is an error with the folders of the project', () => {
  make('build', 'src', 'node_modules', '.git');
  assert.is(
    refusalOf('dist'),
    'output_dir "dist" does not exist. Set the folder that the build makes, or that the sources have. ' +
      'The folders of the project are "build", "src".',
  );
  make(...Array.from({ length: 12 }, (_, at) => `folder${at}`));
  assert.match(refusalOf('dist'), /"folder\d+", …\.$/);
});

test('a project without folders is named as such', () => {
  assert.match(refusalOf('dist'), /The project has no other folder\.$/);
});

test('an empty output folder is an error', () => {
  make('dist');
  assert.is(refusalOf('dist'), 'output_dir "dist" is empty. The folders of the project are "dist".');
});

for (const [made, remedy] of [
  ['.next/server', /made a Next\.js server\. Set output: 'export'/],
  ['.output/server', /made a Nuxt server\. Run nuxt generate/],
  ['.svelte-kit/output/server', /@sveltejs\/adapter-static/],
  ['dist/server', /In Astro, set output: 'static'/],
  ['build/server', /In React Router, set ssr: false/],
] as const) {
  test(`a build that made ${made} for a server gets the remedy`, () => {
    make(made);
    assert.match(refusalOf('out'), remedy);
  });
}

test('names of folders cannot add lines to the message, and links are not followed', () => {
  make('a\nb');
  symlinkSync('/etc', path.join(source, 'linked'));
  assert.match(refusalOf('dist'), /are "a\\nb"\.$/);
});

test.run();

/** Compares .dockerignore with images/Dockerfile: an image that copies an ignored folder does not build. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const root = fileURLToPath(new URL('../../', import.meta.url));
const linesOf = (file: string) => readFileSync(path.join(root, file), 'utf8').split('\n');

test('.dockerignore admits what the Dockerfile copies from the sources, and nothing else', () => {
  const copied = linesOf('images/Dockerfile')
    .filter((line) => /^COPY (?!--from)/.test(line))
    .flatMap((line) => line.split(' ').slice(1, -1))
    .map((name) => name.split('/')[0] as string);
  const admitted = linesOf('.dockerignore').flatMap((line) => (line.startsWith('!') ? [line.slice(1)] : []));
  assert.ok(copied.length > 0);
  assert.equal([...admitted].sort(), [...new Set(copied)].sort());
});

test.run();

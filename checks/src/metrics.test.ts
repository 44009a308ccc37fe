/** Compares docs/metrics.md with the code: a row for each metric, with its type, labels and help. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { FOR_TESTS, PRODUCT, root, sourcesIn } from './sources.js';

const METRIC =
  /new (Counter|Gauge|Histogram)\(\{\s*name: '(\w+)',\s*help: '([^']*)',\s*(?:labelNames: \[([^\]]*)\],)?/g;
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');

const sources = PRODUCT.flatMap(sourcesIn).filter((file) => !FOR_TESTS.test(file));
const rows = sources.flatMap((file) =>
  [...read(file).matchAll(METRIC)].map(([, type = '', name, help, labels = '']) => {
    const shown = labels.replaceAll("'", '`');
    return `| \`${name}\` | ${type.toLowerCase()} | ${shown} | ${help} |`;
  }),
);

test('docs/metrics.md has a row for each metric, as it is registered', () => {
  assert.ok(rows.length > 15);
  const documented = read('docs/metrics.md').match(/^\| `slipway_.*$/gm) ?? [];
  assert.equal([...documented].sort(), rows.toSorted());
});

test('every metric that the docs name is registered', () => {
  const known = new Set(rows.map((row) => /slipway_\w+/.exec(row)?.[0]));
  const pages = readdirSync(path.join(root, 'docs'), { recursive: true, encoding: 'utf8' });
  const named = pages
    .filter((file) => file.endsWith('.md'))
    .flatMap(
      (file) => read(path.join('docs', file)).match(/\bslipway_\w+_(?:total|seconds|projects|leading|depth)\b/g) ?? [],
    );
  assert.ok(named.length > rows.length);
  assert.equal(
    named.filter((name) => !known.has(name)),
    [],
  );
});

test.run();

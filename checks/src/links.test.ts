/** Checks that each link between pages of the docs has a target file, and its heading if the link names one. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { root } from './sources.js';

const pages = [
  ...readdirSync(root).filter((file) => file.endsWith('.md')),
  ...readdirSync(path.join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => path.join('docs', file)),
];
const read = (page: string) => readFileSync(path.join(root, page), 'utf8');
const withoutCode = (markdown: string) =>
  markdown.replaceAll(/^ *```[\s\S]*?^ *```$/gm, '').replaceAll(/`[^`\n]*`/g, '');

/** Returns the anchors of a page's headings, as GitHub makes them. */
function anchorsOf(page: string): Set<string> {
  const headings = read(page)
    .replaceAll(/^ *```[\s\S]*?^ *```$/gm, '')
    .matchAll(/^#+ (.*)$/gm);
  const anchors = [...headings].map(([, heading = '']) =>
    heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
  return new Set(anchors);
}

/** Returns the fault of the link; undefined: it has a target. */
function faultOf(page: string, link: string): string | undefined {
  if (/^[a-z]+:/.test(link)) return undefined;
  const [file = '', anchor] = link.split('#');
  const target = file === '' ? page : path.join(path.dirname(page), file);
  if (!existsSync(path.join(root, target))) return `${page}: ${link}: no such file`;
  const isKnown = anchor === undefined || !target.endsWith('.md') || anchorsOf(target).has(anchor);
  return isKnown ? undefined : `${page}: ${link}: no such heading`;
}

test('each relative link of the docs has a target file and heading', () => {
  const links = pages.flatMap((page) =>
    [...withoutCode(read(page)).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => ({ page, link })),
  );
  assert.ok(links.length > 200);
  const faults = links.map(({ page, link }) => faultOf(page, link)).filter(Boolean);
  assert.equal(faults, []);
});

test('each page of the docs can be reached from the index', () => {
  const reached = new Set(['docs/README.md']);
  for (const page of reached) {
    const links = [...withoutCode(read(page)).matchAll(/\]\(([^)\s#]+\.md)(?:#[^)]*)?\)/g)];
    for (const [, link = ''] of links) {
      if (!/^[a-z]+:/.test(link)) reached.add(path.join(path.dirname(page), link));
    }
  }
  assert.equal(
    pages.filter((page) => page.startsWith('docs/') && !reached.has(page)),
    [],
  );
});

test.run();

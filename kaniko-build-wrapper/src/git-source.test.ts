import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { gitSourceOf, refsOf } from './git-source.js';

test('a source must be an https or ssh URL that git can’t take for something else', () => {
  for (const url of ['https://example.org/a/b.git', 'ssh://git@example.org:2222/a/b.git', 'git@example.org:a/b.git'])
    assert.ok(gitSourceOf(url), url);
  for (const url of [
    '',
    '--upload-pack=touch /tmp/x',
    '-oProxyCommand=touch',
    'ext::sh -c touch% /tmp/x',
    'EXT::sh -c x',
    'fd::17/foo',
    'file:///etc',
    '/etc/passwd',
    '../neighbour',
    './.git',
    'http://example.org/a.git',
    'git://example.org/a.git',
    'ftp://example.org/a.git',
    'https://user:password@example.org/a.git',
    'https://example.org/a.git?x=1',
    'https::ext::sh',
    'ssh://-oProxyCommand=touch/a',
    'ssh://git@-oProxyCommand=touch/a',
    'ssh://-l@example.org/a',
    '-git@example.org:a',
    'git@-example.org:a',
    'git@example.org:a b',
    'git@example.org:$(touch /tmp/x)',
    'git@example.org:`id`',
    `https://example.org/${'a'.repeat(3000)}`,
  ])
    assert.throws(() => gitSourceOf(url), /repo_url/, url);
});

test('a revision must name a branch, tag or commit, not an option, range or second ref', () => {
  assert.equal(refsOf('main'), ['refs/heads/main', 'refs/tags/main']);
  assert.equal(refsOf('feature/ü-1'), ['refs/heads/feature/ü-1', 'refs/tags/feature/ü-1']);
  assert.equal(refsOf('refs/tags/v1'), ['refs/tags/v1']);
  assert.equal(refsOf('a'.repeat(40)), ['a'.repeat(40)]);
  for (const revision of [
    '',
    '--upload-pack=touch /tmp/x',
    '-main',
    '+main',
    '^main',
    'main:refs/heads/other',
    'a..b',
    'main@{1}',
    'main~1',
    'a b',
    'a\nb',
    'a\0b',
    '*',
    'a[b',
    'a\\b',
    '/main',
    'main/',
    'a//b',
    '.main',
    'a/.b',
    'main.lock',
    'main.',
    '@',
    'x'.repeat(300),
  ])
    assert.throws(() => refsOf(revision), /not a valid name of a branch, tag or commit/, revision);
});

test.run();

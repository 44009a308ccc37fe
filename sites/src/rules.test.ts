/** Tests the rules for redirects and headers, written by people and by attackers. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseHeaders, parseRedirects } from './rules.js';

test('a redirect rule has a path, a target and a status', () => {
  const { rules, warnings } = parseRedirects(
    [
      '\ufeff# a comment',
      '/old /new',
      '  /tabs\t/new\t302  # a comment',
      '/slash/ /new 308\r',
      '/%C3%A4 /ö 303',
      '/blog/:year/:slug https://Example.com/:slug?y=:year 307',
      '/app/* /app/index.html 200',
      '/* /404.html 404!',
      '',
    ].join('\n'),
  );
  assert.equal(warnings, []);
  assert.equal(rules, [
    { from: '/old', to: '/new', status: 301 },
    { from: '/tabs', to: '/new', status: 302 },
    { from: '/slash', to: '/new', status: 308 },
    { from: '/ä', to: '/%C3%B6', status: 303 },
    { from: '/blog/:year/:slug', to: 'https://example.com/:slug?y=:year', status: 307 },
    { from: '/app/*', to: '/app/index.html', status: 200 },
    { from: '/*', to: '/404.html', status: 404, force: true },
  ]);
});

for (const [line, problem] of [
  ['old /new', 'the first part must be a path, such as /old'],
  ['//old /new', 'the first part must be a path, such as /old'],
  ['https://a.test/old /new', 'the first part must be a path, such as /old'],
  ['/%ff /new', 'the first part must be a path, such as /old'],
  ['/a*b /new', 'a * can only be the last part of a path, as in /old/*'],
  ['/*/a /new', 'a * can only be the last part of a path, as in /old/*'],
  ['/old*', 'a * can only be the last part of a path, as in /old/*'],
  ['/shop id=:id /item/:id', 'the second part must be a path or a URL: parameters are not matched'],
  ['/uk /gb 302 Country=gb', 'rules with conditions are not supported'],
  ['/old /new 418', 'the status must be one of 200, 301, 302, 303, 307, 308, 404'],
  ['/old', 'the second part must be a path of the site, or a URL if the status is 3xx'],
  ['/old https://other.test/ 200', 'the second part must be a path of the site, or a URL if the status is 3xx'],
  ['/old https://other.test/ 404', 'the second part must be a path of the site, or a URL if the status is 3xx'],
  ['/old //other.test/', 'the second part must be a path of the site, or a URL if the status is 3xx'],
  ['/old /\\other.test/', 'the second part must be a path of the site, or a URL if the status is 3xx'],
  ['/* https://:splat/', 'the second part must be a path of the site, or a URL if the status is 3xx'],
  ['/* https://a.test:splat', 'the second part must be a path of the site, or a URL if the status is 3xx'],
  ['/old https://user@other.test/', 'the second part must be a path of the site, or a URL if the status is 3xx'],
  ['/old javascript:alert(1)', 'the second part must be a path or a URL: parameters are not matched'],
  [`/old /${'x'.repeat(2000)}`, 'a rule has at most 2000 characters'],
] as const) {
  test(`the redirect rule ${line.slice(0, 50)} is left out, and a warning gives the reason`, () => {
    assert.equal(parseRedirects(`\n${line}`), { rules: [], warnings: [`_redirects, line 2: ${problem}`] });
  });
}

test('rules above 2,000 fixed and 100 dynamic ones are left out, with 20 warnings', () => {
  const lines = Array.from({ length: 2030 }, (_, at) => `/fixed-${at} /x\n/dynamic-${at}/* /x`);
  const { rules, warnings } = parseRedirects(lines.join('\n'));
  assert.is(rules.length, 2100);
  assert.is(warnings.length, 21);
  assert.is(warnings[0], '_redirects, line 202: there are more than 100 dynamic rules');
  assert.is(warnings[20], '_redirects: 1940 more lines are left out');
});

test('a header rule has a path, and headers in the lines below it', () => {
  const { rules, warnings } = parseHeaders(
    ['/*', '  X-Frame-Options: DENY', '\tLink: <https://a.test>; rel=x', '/a/', '  ! x-frame-options', '  Empty:'].join(
      '\r\n',
    ),
  );
  assert.equal(warnings, []);
  assert.equal(rules, [
    {
      path: '/*',
      set: [
        ['X-Frame-Options', 'DENY'],
        ['Link', '<https://a.test>; rel=x'],
      ],
      unset: [],
    },
    { path: '/a', set: [['Empty', '']], unset: ['x-frame-options'] },
  ]);
});

for (const name of [
  'Content-Length',
  'transfer-encoding',
  'Connection',
  'Upgrade',
  'Content-Encoding',
  'ETag',
  'Last-Modified',
  'Vary',
  'X-Content-Type-Options',
  'Location',
]) {
  test(`a header rule can't set ${name}`, () => {
    const { rules, warnings } = parseHeaders(`/*\n  ${name}: x`);
    assert.equal(rules[0]?.set, []);
    assert.equal(warnings, [`_headers, line 2: the header ${name} can't be set by a site`]);
  });
}

for (const [text, problem] of [
  ['X: y', 'line 1: a line that is not indented must be a path, such as /assets/*'],
  ['https://a.test/*\n  X: y', 'line 1: a line that is not indented must be a path, such as /assets/*'],
  ['/a*b*\n  X: y', 'line 1: a path can have one * or placeholders such as :name, not both'],
  ['/:a/*\n  X: y', 'line 1: a path can have one * or placeholders such as :name, not both'],
  ['/a\n  no colon', 'line 2: an indented line must be like `Name: value`'],
  ['/a\n  Bad Name: x', 'line 2: an indented line must be like `Name: value`'],
  ['/a\n  X: a\u0000b', 'line 2: an indented line must be like `Name: value`'],
  ['/a\n  X: €', 'line 2: an indented line must be like `Name: value`'],
  [`/a\n  X: ${'x'.repeat(2000)}`, 'line 2: a rule has at most 2000 characters'],
  [`${'/a\n'.repeat(101)}`, 'line 101: there are more than 100 rules'],
] as const) {
  test(`the header rule ${JSON.stringify(text.slice(0, 30))} is left out, and a warning gives the reason`, () => {
    const { rules, warnings } = parseHeaders(text);
    assert.equal(warnings, [`_headers, ${problem}`]);
    assert.equal(
      rules.flatMap(({ set }) => set),
      [],
    );
  });
}

test.run();

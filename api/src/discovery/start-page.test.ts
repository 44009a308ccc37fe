import { firstCommands } from '@slipway/installation';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { overviewOf, pageOf, wantsPage } from './start-page.js';

const LOCAL = {
  publicUrl: 'http://localhost:4000',
  accounts: { registration: { mode: 'open' }, localOnly: true },
} as const;

const settings = { ...LOCAL, openedServices: {}, site: undefined };
const overview = overviewOf(settings, 3);

/** Returns the commands as a reader copies them from the page. */
const commandsOf = (page: string) =>
  (/<pre><code>([\s\S]*?)<\/code>/.exec(page)?.[1] ?? '').replaceAll(
    /&(amp|lt|gt|quot|#39);/g,
    (_, name) => ({ amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" })[name as string] as string,
  );

test('the commands on the start page register the README’s account and sign in, and can be repeated', () => {
  const account = { email: 'me@example.com', password: 'a long password' };
  const expected = firstCommands({ publicUrl: LOCAL.publicUrl, account, isOpen: true });
  assert.is(commandsOf(pageOf(overview, LOCAL)), expected.join('\n'));
});

test('the start page shows a password only on loopback, and registration only where it is open', () => {
  const invited = pageOf(overview, { ...LOCAL, accounts: { registration: { mode: 'invite' }, localOnly: false } });
  assert.not.match(commandsOf(invited), /a long password|auth\/register/);
  assert.match(commandsOf(invited), /auth\/login/);
  assert.match(invited, /an administrator invites you/);
  const open = pageOf(overview, { ...LOCAL, accounts: { ...LOCAL.accounts, localOnly: false } });
  assert.not.match(commandsOf(open), /a long password/);
});

test('the overview names closed services and the setting that opens them', () => {
  assert.equal(overview.services, {
    open: ['rest', 'auth', 'realtime'],
    closed: ['storage', 'functions'],
    opened_by: 'SLIPWAY_SERVICES_SHARED=all npm start',
  });
  const opened = overviewOf({ ...settings, openedServices: { shared: ['storage', 'functions'] } }, 3);
  assert.equal(opened.services.closed, []);
  assert.not.match(pageOf(opened, LOCAL), /Closed/);
});

test('the overview has the number of projects only while no other machine can reach the platform', () => {
  assert.is(overview.projects, 3);
  assert.match(pageOf(overview, LOCAL), /<dt>Projects<\/dt><dd>3<\/dd>/);
  const reachable = { ...LOCAL.accounts, localOnly: false };
  const shown = overviewOf({ ...settings, accounts: reachable }, 3);
  assert.is(shown.projects, null);
  assert.not.match(pageOf(shown, { ...LOCAL, accounts: reachable }), /Projects<\/dt>/);
});

test('the start page links to the documentation, and escapes the public URL in its attribute', () => {
  assert.match(pageOf(overview, LOCAL), /<a href="http:\/\/localhost:4000\/docs">/);
  const hostile = overviewOf({ ...settings, publicUrl: `https://a"><script>b</script>` }, 3);
  assert.not.match(pageOf(hostile, { ...LOCAL, publicUrl: `https://a"><script>` }), /<script>/);
});

for (const [accept, page] of [
  ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', true],
  ['application/json, text/html;q=0.5', false],
  ['*/*', false],
  ['application/json', false],
  ['x-text/html2', false],
  [undefined, false],
] as const) {
  test(`a request with Accept: ${accept} is answered with ${page ? 'a page' : 'JSON'}`, () => {
    assert.is(wantsPage(accept), page);
  });
}

test.run();

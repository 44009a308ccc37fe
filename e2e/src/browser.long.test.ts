/**
 * Tests a one-machine platform in a real browser: its own pages, and attacks from pages of a tenant and of a foreign
 * site.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import axe, { type AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Browser, isBrowserInstalled, startBrowser } from './browser.js';
import { Management, type ProjectView } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';

/** The page's window once axe-core is loaded into it. */
interface Window {
  axe: { run(): Promise<AxeResults> };
}

/** Makes a page that runs each of `attempts`, and reports the results in the document's title. */
const attacking = (attempts: Record<string, string>) => `<!doctype html><body><script>(async () => {
  const results = {};
  const attempts = {${Object.entries(attempts)
    .map(([name, body]) => `${name}: async () => {${body}}`)
    .join(',')}};
  for (const [name, attempt] of Object.entries(attempts)) {
    try {
      results[name] = String(await attempt());
    } catch (error) {
      results[name] = 'refused: ' + error.name + ' ' + error.message;
    }
  }
  document.title = JSON.stringify(results);
})()</script>`;

const WORKER = "self.addEventListener('fetch', (event) => event.respondWith(new Response('owned')));";

/** SQL of REST functions that respond with a page, and with a script whose header widens a service worker's scope. */
const attackSql = (anonKey: string) => {
  const page = attacking({
    worker: `await navigator.serviceWorker.register('worker?apikey=${anonKey}', { scope: '/' });
      await navigator.serviceWorker.ready; return 'registered';`,
    cookie: "document.cookie = 'planted_by_script=1; path=/'; return document.cookie;",
    storage: "localStorage.setItem('planted', '1'); return localStorage.getItem('planted');",
    docs: "return (await (await fetch('/docs')).text()).length;",
    openApi: "return (await (await fetch('/openapi.json')).text()).length;",
    frame: `const frame = document.createElement('iframe'); frame.src = '/docs';
      await new Promise((resolve) => { frame.onload = resolve; document.body.append(frame); });
      return frame.contentDocument.title;`,
  });
  const headers = JSON.stringify([{ 'Set-Cookie': 'planted_by_header=1; Path=/' }]);
  const workerHeaders = JSON.stringify([{ 'Content-Type': 'text/javascript' }, { 'Service-Worker-Allowed': '/' }]);
  return `
    create domain "text/html" as text;
    create domain "*/*" as text;
    create function page() returns "text/html" language plpgsql as $f$ begin
      perform set_config('response.headers', $h$${headers}$h$, true);
      return $p$${page}$p$;
    end $f$;
    create function worker() returns "*/*" language plpgsql as $f$ begin
      perform set_config('response.headers', $h$${workerHeaders}$h$, true);
      return $p$${WORKER}$p$;
    end $f$;`;
};

let platform: RunningPlatform;
let browser: Browser;
let mallory: ProjectView;
let victim: ProjectView;

if (isBrowserInstalled) {
  test.before(async () => {
    platform = await startPlatform();
    browser = await startBrowser(['rebound.test']);
    const person = await Management.register(platform);
    const made = [await person.createProject('mallory'), await person.createProject('victim')];
    [mallory, victim] = (await Promise.all(made.map(({ id }) => person.untilHealthy(id)))) as [
      ProjectView,
      ProjectView,
    ];
    await person.query(mallory.id, attackSql(mallory.anon_key));
  });

  test.after(async () => {
    await browser?.close();
    await platform?.remove();
  });

  test('a page of a project can’t access anything else on the shared origin', async () => {
    const page = await browser.context.newPage();
    // Stands for any way in which a page could get a key. The worker's script is fetched without the key.
    await page.setExtraHTTPHeaders({ apikey: mallory.anon_key });
    await page.goto(`${mallory.project_url}/rest/v1/rpc/page?apikey=${mallory.anon_key}`);
    assert.equal(succeededOf(await resultsOf(page)), []);
    assert.equal(await browser.context.cookies(platform.url), []);
    assert.equal(browser.context.serviceWorkers(), []);
    await page.close();
    assert.match(await textAt(`${platform.url}/docs`), /Slipway management API/);
    assert.match(await textAt(`${victim.project_url}/auth/v1/health`), /GoTrue/);
  });

  test('the documentation page works under its own content security policy', async () => {
    const page = await browser.context.newPage();
    const errors: string[] = [];
    page.on('console', (message) => void (message.type() === 'error' && errors.push(message.text())));
    await page.goto(`${platform.url}/docs`);
    await page.getByText('/projects/{id}/query').first().waitFor();
    assert.equal(errors, []);
    await page.close();
  });

  for (const [screen, viewport] of [
    ['a wide', { width: 1280, height: 800 }],
    ['a narrow', { width: 360, height: 640 }],
  ] as const) {
    test(`the start page has no script and no barrier that axe-core finds serious on ${screen} screen`, async () => {
      const page = await browser.context.newPage();
      await page.setViewportSize(viewport);
      await page.goto(platform.url);
      assert.is(await page.locator('script').count(), 0);
      await page.evaluate(axe.source);
      const { passes, violations } = await page.evaluate(() => (globalThis as unknown as Window).axe.run());
      assert.ok(passes.length > 0);
      const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
      assert.equal(
        serious.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html)]),
        [],
      );
      await page.close();
    });
  }

  test('a page of a foreign site can neither register at a loopback platform nor read from it', async () => {
    const email = 'planted@example.com';
    const body = `JSON.stringify({ email: '${email}', password: 'a long password' })`;
    const post = (mode: string, type: string) => `const answer = await fetch('${platform.url}/auth/register',
      { method: 'POST', mode: '${mode}', headers: { 'content-type': '${type}' }, body: ${body} });
      return answer.type === 'opaque' ? Promise.reject(new TypeError('opaque')) : answer.status;`;
    const results = await attackFrom({
      json: post('cors', 'application/json'),
      plain: post('cors', 'text/plain'),
      blind: post('no-cors', 'text/plain'),
      docs: `return (await fetch('${platform.url}/openapi.json')).status;`,
    });
    assert.equal(succeededOf(results), []);
    // The address is unused, so no request above made an account with it.
    const { status } = await fetch(`${platform.url}/auth/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email, password: 'a long password' }),
    });
    assert.is(status, 201);
  });

  test('a foreign host name that resolves to this machine opens no page of the platform', async () => {
    const page = await browser.context.newPage();
    const at = `http://rebound.test:${platform.port}`;
    for (const path of ['/docs', '/openapi.json', `/p/${victim.ref}/auth/v1/health`]) {
      assert.is((await page.goto(`${at}${path}`))?.status(), 421, path);
    }
    await page.close();
  });

  test('a link with a key in its query opens no page of a project', async () => {
    const page = await browser.context.newPage();
    const answer = await page.goto(`${mallory.project_url}/rest/v1/rpc/page?apikey=${mallory.anon_key}`);
    assert.is(answer?.status(), 401);
    await page.close();
  });
} else {
  test('the browser for these tests is installed', () =>
    console.log(`# skipped: pages in a real browser, as Chromium is not installed`));
}

/** Runs the attempts on a page of another origin. */
async function attackFrom(attempts: Record<string, string>): Promise<Record<string, string>> {
  const site = createServer((_, outgoing) => {
    outgoing.writeHead(200, { 'content-type': 'text/html' }).end(attacking(attempts));
  });
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
  const page = await browser.context.newPage();
  try {
    await page.goto(`http://127.0.0.1:${(site.address() as AddressInfo).port}/`);
    return await resultsOf(page);
  } finally {
    await page.close();
    site.closeAllConnections();
    site.close();
  }
}

const succeededOf = (results: Record<string, string>) =>
  Object.entries(results).filter(([, result]) => !result.startsWith('refused: '));

async function resultsOf(page: Page): Promise<Record<string, string>> {
  await page.waitForFunction("document.title.startsWith('{')");
  return JSON.parse(await page.title());
}

async function textAt(url: string): Promise<string> {
  const page = await browser.context.newPage();
  await page.goto(url);
  await page.waitForFunction('document.body.innerText.length > 20');
  const text = await page.innerText('body');
  await page.close();
  return text;
}

test.run();

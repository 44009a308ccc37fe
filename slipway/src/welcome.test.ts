import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readSettings } from './settings.js';
import { welcome } from './welcome.js';

const textFor = (environment: Record<string, string>, setupCode?: string, services = ['rest', 'auth']) =>
  welcome(
    readSettings(environment, '/repo'),
    { kubeconfig: '/repo/.slipway/kubeconfig', services, setupCode } as never,
    '1.0',
  );
const passwordIn = (text: string) => /"password":"([^"]*)"/.exec(text)?.[1] ?? '';

test('welcome prints a random password beside the setup code', () => {
  const texts = [1, 2].map(() => textFor({ SLIPWAY_HOST: '0.0.0.0' }, 'the-code'));
  const [one = '', two = ''] = texts.map(passwordIn);
  assert.match(one, /^[\w-]{24}$/);
  assert.is.not(one, two);
  assert.match(texts[0] ?? '', /keep the password/);
});

test('welcome prints a random password when registration is open to a network', () => {
  assert.match(passwordIn(textFor({ SLIPWAY_HOST: '0.0.0.0', SLIPWAY_REGISTRATION: 'open' })), /^[\w-]{24}$/);
});

test('welcome names closed services and the setting that opens them', () => {
  assert.match(
    textFor({}),
    /services +rest, auth {2}\(SLIPWAY_SERVICES_SHARED=all npm start opens realtime, storage, functions/,
  );
});

test('welcome describes how functions are isolated only when functions are open', () => {
  assert.not.match(textFor({}), /^ {2}functions /m);
  assert.match(textFor({}, undefined, ['rest', 'functions']), /^ {2}functions +\S.*Deno’s permissions/m);
});

test('welcome shows the README’s account when the platform is on loopback', () => {
  assert.is(textFor({}), textFor({}));
  const [, account] = /ACCOUNT='(.*)'/.exec(textFor({})) ?? [];
  assert.ok(account && readFileSync(new URL('../../README.md', import.meta.url), 'utf8').includes(account));
});

test('the commands of welcome print a token on the second run too, or report that there is none', async () => {
  const { url, accounts, close } = await accountServer();
  const commands = textFor({})
    .split('\n')
    .filter((line) => line.startsWith('  ') && /ACCOUNT|TOKEN/.test(line));
  const script = commands.join('\n').replaceAll('http://localhost:4000', url);
  const run = () => promisify(execFile)('bash', ['-c', script]);
  for (const pass of [1, 2]) assert.match((await run()).stdout, /bearer=the-token/, `pass ${pass}`);
  assert.equal(accounts, ['me@example.com']);
  accounts[0] = 'somebody else';
  const failure = await run().then(
    () => undefined,
    (error) => error,
  );
  assert.match(failure?.stderr ?? '', /TOKEN: is empty: the sign-in failed/);
  close();
});

/** An API with one account. A second registration gets 409, and only that account can sign in. */
async function accountServer() {
  const accounts: string[] = [];
  const server = createServer(async (request, response) => {
    const { email } = JSON.parse((await text(request)) || '{}');
    const answer = (status: number, body: object) => response.writeHead(status).end(JSON.stringify(body));
    if (request.url === '/projects') answer(201, { note: `bearer=${request.headers.authorization?.slice(7)}` });
    else if (request.url === '/auth/register' && accounts.length > 0) answer(409, { code: 'email_taken' });
    else if (request.url === '/auth/register') answer(201, { token: 'the-token', n: accounts.push(email) });
    else if (accounts.includes(email)) answer(200, { token: 'the-token', user: {} });
    else answer(401, { code: 'invalid_credentials' });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, accounts, close: () => server.close() };
}

test.run();

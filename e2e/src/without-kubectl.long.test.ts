/**
 * Runs the commands of the guide for owners without kubectl, as a reader pastes them, with a mail server and an OpenID
 * provider on this machine. Then users sign in by the link of the mail and through the provider.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startMailbox } from '@slipway/api/mail/mailbox.testing.js';
import { startProvider } from '@slipway/dataplane/auth/provider.testing.js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { followPage } from './docs-shell.js';
import { type RunningPlatform, startPlatform } from './platform.js';

let platform: RunningPlatform;
let mailbox: Awaited<ReturnType<typeof startMailbox>>;
let provider: Awaited<ReturnType<typeof startProvider>>;
let home: string;

test.before(async () => {
  mailbox = await startMailbox();
  provider = await startProvider();
  home = await mkdtemp(path.join(tmpdir(), 'slipway-guide-'));
  platform = await startPlatform(undefined, { SLIPWAY_ALLOWED_NETWORKS: '127.0.0.0/8' });
});
test.after(async () => {
  await platform?.remove();
  await mailbox?.close();
  await provider?.close();
  await rm(home, { recursive: true, force: true });
});

test('the commands of docs/guides/without-kubectl.md have the documented effect', async () => {
  const { username, password, hostname, port } = new URL(mailbox.settings.url);
  const { GOTRUE_EXTERNAL_COMPANY_CLIENT_ID: client, GOTRUE_EXTERNAL_COMPANY_SECRET: secret } = provider.settings;
  await followPage(
    {
      page: 'docs/guides/without-kubectl.md',
      needsReadme: true,
      passes: 1,
      replace: [
        ['smtp.example.com', hostname],
        ['"smtp_port": 587', `"smtp_port": ${port}`],
        ['"smtp_user": "mailer"', `"smtp_user": "${username}"`],
        ['the password', password],
        ['https://id.example.com', provider.issuer],
        ['the-app', client ?? ''],
        ['the client secret', secret ?? ''],
      ],
      blocks: [
        /^true\n\{"ok":true,"to":"ada@example.com"\}\n$/,
        /^\{\}200\n$/,
        /^true\nhttp:\/\/127\.0\.0\.1:\d+\/authorize\n$/,
        /^done\n200\n$/,
        /^503\n200\n$/,
        /^mail_not_sent\nthe server refused: 535 /,
        /^200\n409\n$/,
      ],
    },
    platform,
    home,
  );
});

test('the link of the mail signs the user in, also after the rotation', async () => {
  const { text } = await mailbox.next('ada@example.com', 'Your Magic Link');
  const [link = ''] = /http[^"\s]*\/auth\/v1\/verify\?[^"\s]*/.exec(text.replaceAll('&amp;', '&')) ?? [];
  assert.ok(link, text);
  assert.match(await landing(link), /^https:\/\/app\.example\.com\/?#access_token=/);
});

test('a person signs in through the provider', async () => {
  const [project] = await projects();
  provider.person = { sub: '7', email: 'grace@example.com', email_verified: true };
  const authorize = `${project?.project_url}/auth/v1/authorize?provider=company`;
  const back = await provider.visit(await landing(authorize));
  assert.match(await landing(back), /^https:\/\/app\.example\.com\/?#access_token=/);
});

/** Returns the place to which the address redirects. */
async function landing(address: string): Promise<string> {
  const response = await platform.network.fetch(address, { redirect: 'manual' } as never);
  return response.headers.get('location') ?? `${response.status}`;
}

/** The projects of the account of the README. */
async function projects(): Promise<{ project_url: string }[]> {
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({ email: 'me@example.com', password: 'a long password' });
  const login = await fetch(`${platform.url}/auth/login`, { method: 'POST', headers, body });
  const { token } = (await login.json()) as { token: string };
  const list = await fetch(`${platform.url}/projects`, { headers: { authorization: `Bearer ${token}` } });
  return (await list.json()) as { project_url: string }[];
}

test.run();

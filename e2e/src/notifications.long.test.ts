/**
 * Runs the commands of the page about notifications on a whole platform, with a mail server, a receiver, and a server
 * in place of Slack's. Then the platform is killed while messages wait.
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startMailbox } from '@slipway/api/mail/mailbox.testing.js';
import { type Receiver, startReceiver } from '@slipway/api/notifications/receiver.testing.js';
import { selfSigned } from '@slipway/certificates/self-signed.testing.js';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { followPage } from './docs-shell.js';
import { Management } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';

/** The example account of the README. */
const ACCOUNT = { email: 'me@example.com', password: 'a long password' };
const SLACK_PATH = '/services/T0/B0/slack-canary-5d1f';

let platform: RunningPlatform;
let mailbox: Awaited<ReturnType<typeof startMailbox>>;
let receiver: Receiver;
let slack: Receiver;
let home: string;
let environment: Record<string, string>;

test.before(async () => {
  mailbox = await startMailbox();
  receiver = await startReceiver();
  const certificate = await selfSigned('127.0.0.1');
  slack = await startReceiver(certificate);
  home = await mkdtemp(path.join(tmpdir(), 'slipway-notifications-'));
  const files = {
    SLIPWAY_SMTP_URL: mailbox.settings.url,
    SLIPWAY_CA_FILE: certificate.slice(certificate.indexOf('-----BEGIN CERTIFICATE')),
  };
  environment = { SLIPWAY_ALLOWED_NETWORKS: '127.0.0.0/8', SLIPWAY_SMTP_FROM: mailbox.settings.from };
  for (const [name, content] of Object.entries(files)) {
    environment[name] = path.join(home, name);
    await writeFile(environment[name], content, { mode: 0o644 });
  }
  platform = await startPlatform(undefined, environment);
});
test.after(async () => {
  await platform?.remove();
  await mailbox?.close();
  await receiver?.close();
  await slack?.close();
  await rm(home, { recursive: true, force: true });
});

let secret = '';

interface Delivered {
  event_id: string;
  status: string;
}

test('the commands of docs/notifications.md have the documented effect', async () => {
  const events = /^\{"event_id":"[\w-]{36}","channels":\[[^\]]*"webhook"[^\]]*\]\}\n\[ 'notification.test'/;
  await followPage(
    {
      page: 'docs/notifications.md',
      needsReadme: true,
      passes: 1,
      replace: [
        ['https://hooks.slack.com/services/T0/B0/x', `${slack.url}${SLACK_PATH}`],
        ['https://example.com/hooks/slipway', `${receiver.url}/hooks`],
      ],
      blocks: [
        /^true\n$/,
        /^https:\/\/127\.0\.0\.1:\d+\/services/,
        /^\{"id":\d+,.*"secret":"whsec_[^"]+"\}\n$/,
        events,
      ],
    },
    platform,
    home,
  );
  await until(
    async () => [receiver.messages, slack.messages],
    (both) => both.every(({ length }) => length > 0),
  );
  assert.is(JSON.parse(receiver.messages[0]?.body ?? '').type, 'notification.test');
  assert.is(slack.messages[0]?.path, SLACK_PATH);
});

test('a verified owner gets mails, and a token that is created sends a mail to its account', async () => {
  const { token } = await mailbox.next(ACCOUNT.email, 'Verify your e-mail address');
  const owner = await Management.login(platform, ACCOUNT);
  assert.is((await owner.call('POST', '/auth/verify', { token, password: ACCOUNT.password })).status, 200);
  const [project] = (await owner.call<{ id: number; name: string }[]>('GET', '/projects')).body;
  await owner.call('POST', `/projects/${project?.id}/notifications/test`);
  await mailbox.next(ACCOUNT.email, `This is a test: ${project?.name}`);
  await owner.call('POST', '/tokens', { name: 'ci' });
  await mailbox.next(ACCOUNT.email, 'New personal access token');
});

test('messages that wait when the whole platform is killed are delivered after its start', async () => {
  const owner = await Management.login(platform, ACCOUNT);
  const [project] = (await owner.call<{ id: number }[]>('GET', '/projects')).body;
  const id = project?.id ?? 0;
  const hook = { url: `${receiver.url}/after-kill`, events: ['deploy.failed'] };
  secret = (await owner.call<{ secret: string }>('POST', `/projects/${id}/webhooks`, hook)).body.secret;
  receiver.answer.status = 500;
  receiver.messages.splice(0);
  const sent = await owner.call<{ event_id: string }>('POST', `/projects/${id}/notifications/test`);
  assert.is(sent.status, 202);
  await platform.kill();
  receiver.answer.status = 204;
  const { home: former, port } = platform;
  platform = await startPlatform({ home: former, port }, environment);
  const delivered = () =>
    receiver.messages.filter(
      (each) => each.path === '/after-kill' && each.headers['webhook-id'] === sent.body.event_id,
    );
  const again = await Management.login(platform, ACCOUNT);
  const list = `/projects/${id}/notifications/deliveries`;
  await until(
    async () => (await again.call<{ items: Delivered[] }>('GET', list)).body.items,
    (items) => items.filter((each) => each.event_id === sent.body.event_id).every((each) => each.status !== 'pending'),
    90_000,
  );
  assert.ok(delivered().length >= 1);
});

test('no log has the secret of a webhook, the URL of Slack, or the password of the mail server', async () => {
  const folder = path.join(platform.home, 'logs');
  const logs = (await readdir(folder)).map((name) => readFile(path.join(folder, name), 'utf8'));
  const text = (await Promise.all(logs)).join('');
  assert.ok(text.includes('the API serves'));
  for (const hidden of [secret.slice(6), 'slack-canary', new URL(mailbox.settings.url).password]) {
    assert.ok(hidden.length > 8);
    assert.not.ok(text.includes(hidden), hidden);
  }
});

test.run();

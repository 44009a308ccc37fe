/** Tests the route that sends a mail with a project's settings, against real mail servers and others. */
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { authConfigDigest } from '@slipway/installation/auth-settings.js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type AuthProject, type Harness, PLENTY, startHarness } from './testing/harness.js';

let harness: Harness;
let app: AuthProject;
let settings: Record<string, string>;

test.before(async () => {
  harness = await startHarness();
  app = await harness.project('testmails');
});
test.after(() => harness?.close());
test.before.each(() => use(harness.mailbox.settings));

function use(values: Record<string, string>): void {
  settings = { ...PLENTY, ...values };
  app.configure(values);
}

const send = (email: unknown, { token = app.tenant.serviceRoleKey, digest = authConfigDigest(settings) } = {}) =>
  app.ask('POST', '/admin/test_mail', { token, body: { email, settings: digest } });

/** Runs `work` with a server that sends `greeting` to each client. */
async function withServer(greeting: string, work: (port: string) => Promise<void>): Promise<void> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.write(greeting);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    await work(String((server.address() as AddressInfo).port));
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
}

test('a test mail arrives, and names the project', async () => {
  const email = app.newEmail();
  const { status, body } = await send(email);
  assert.equal([status, body], [200, { sent: true }]);
  const mail = await harness.mailbox.next(email);
  assert.is(mail.subject, 'Test mail of the project testmails');
});

test('a refused password is quoted, and never shown', async () => {
  use({ ...harness.mailbox.settings, GOTRUE_SMTP_PASS: 'canary-of-a-wrong-password' });
  const { status, body } = await send(app.newEmail());
  assert.equal([status, body.error_code], [422, 'mail_not_sent']);
  assert.match(String(body.msg), /^127\.0\.0\.1:\d+: the server refused: 535 /);
  assert.not.match(String(body.msg) + harness.logged.join(''), /canary-of-a-wrong-password/);
});

test('a port where nothing listens, an unknown host and no settings are named', async () => {
  let closed = '';
  await withServer('', async (port) => {
    closed = port;
  });
  for (const [values, words] of [
    [{ GOTRUE_SMTP_HOST: '127.0.0.1', GOTRUE_SMTP_PORT: closed }, /^127\.0\.0\.1:\d+: ECONNREFUSED$/],
    [{ GOTRUE_SMTP_HOST: 'mail.invalid' }, /^mail\.invalid:\d+: there is no such host$/],
    [{}, /^No SMTP server is set: set smtp_host$/],
    [
      { GOTRUE_HOOK_SEND_EMAIL_ENABLED: 'true', GOTRUE_HOOK_SEND_EMAIL_URI: 'pg-functions://postgres/public/f' },
      /^A send_email hook/,
    ],
  ] as const) {
    use(values);
    const { status, body } = await send(app.newEmail());
    assert.equal([status, body.error_code], [422, 'mail_not_sent']);
    assert.match(String(body.msg), words);
  }
});

test('the text of a server that is not one for mail is not shown', async () => {
  for (const greeting of ['-ERR secret-of-another-program\r\n', '530 secret-of-another-program\r\n']) {
    await withServer(greeting, async (port) => {
      use({ GOTRUE_SMTP_HOST: '127.0.0.1', GOTRUE_SMTP_PORT: port });
      const { status, body } = await send(app.newEmail());
      assert.is(status, 422);
      assert.not.match(JSON.stringify(body), /secret-of-another-program/);
      assert.match(String(body.msg), /this is no mail server$/);
    });
  }
});

test('an address with a line break or several addresses is refused, and nothing is sent', async () => {
  for (const email of ['a@example.com\r\nBcc: b@example.com', 'a@example.com, b@example.com', '', 7, undefined]) {
    const { status } = await send(email);
    assert.is(status, 400, String(email));
  }
  assert.is(harness.mailbox.countOf('b@example.com'), 0);
});

test('other settings than those that the caller read send nothing', async () => {
  const email = app.newEmail();
  const { status, body } = await send(email, { digest: authConfigDigest({ ...settings, GOTRUE_SMTP_PORT: '26' }) });
  assert.equal([status, body.error_code], [409, 'settings_outdated']);
  assert.is(harness.mailbox.countOf(email), 0);
});

test('only the service_role sends test mails, and a limited number', async () => {
  assert.is((await send(app.newEmail(), { token: app.tenant.anonKey })).status, 403);
  const statuses: number[] = [];
  for (let mail = 0; mail < 21; mail += 1) statuses.push((await send('many@example.com')).status);
  assert.is(statuses.at(-1), 429);
  assert.ok(harness.mailbox.countOf('many@example.com') <= 20);
});

test.run();

/** Accounts of an installation that sends mail, with a real SMTP server. */
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startMailbox } from '../mail/mailbox.testing.js';
import { startTestApi } from '../testing.js';

const mailbox = await startMailbox();
const api = await startTestApi({ publicUrl: 'https://slipway.example.com', mail: mailbox.settings });
test.after(async () => {
  await api.close();
  await mailbox.close();
});

const VERIFY = 'Verify your e-mail address';
const RESET = 'Set a new password';
const password = 'correct horse';
const post = (path: string, json: object, options: { token?: string; headers?: Record<string, string> } = {}) =>
  api.call('POST', path, { json, ...options });
const statusOf = async (token: string) => (await api.call('GET', '/auth/me', { token })).status;
const from = (address: string) => ({ 'x-forwarded-for': address });

let people = 0;
async function account(headers: Record<string, string> = {}) {
  people += 1;
  const email = `mailed${people}@example.com`;
  const { token } = (await post('/auth/register', { email, password }, { headers })).body;
  return { email, token: token as string };
}

const { onPlatform } = api;

test('a mailed link leads to the configured address, whatever the headers of the request say', async () => {
  const forged = { host: 'evil.example', 'x-forwarded-host': 'evil.example', forwarded: 'host=evil.example' };
  const { email } = await account(forged);
  const verification = await mailbox.next(email, VERIFY);
  assert.match(verification.link, /^https:\/\/slipway\.example\.com\/auth\/link#verify=[\w-]{43}$/);
  await post('/auth/password/forgot', { email }, { headers: forged });
  const reset = await mailbox.next(email, RESET);
  assert.match(reset.link, /^https:\/\/slipway\.example\.com\/auth\/link#reset=[\w-]{43}$/);
  for (const mail of [verification, reset]) assert.not.match(`${mail.headers}${mail.text}`, /evil/);
});

test('an address is verified once, by the link and the password of the account', async () => {
  const { email } = await account();
  const { token } = await mailbox.next(email, VERIFY);
  assert.is((await post('/auth/verify', { token, password: 'of somebody else' })).status, 401);
  assert.is((await post('/auth/verify', { token: `${token}x`, password })).body.code, 'link_invalid');
  const answers = await Promise.all([1, 2, 3].map(() => post('/auth/verify', { token, password })));
  assert.equal(answers.map(({ status }) => status).sort(), [200, 400, 400]);
  const [row] = await onPlatform('select email_verified_at from platform.users where email = $1', [email]);
  assert.ok(row?.email_verified_at);
  const { user } = (await post('/auth/login', { email, password })).body;
  assert.equal([user.email, user.email_verified], [email, true]);
});

test('a new network signs in by mailed code during a guessing attack, and no response reveals a password', async () => {
  const { email } = await account();
  const logIn = (network: string, body: object) => post('/auth/login', { email, ...body }, { headers: from(network) });
  let guesses = 0;
  const guess = () => logIn(`198.18.${guesses++}.9`, { password: 'a guess' });
  const isRefused = ({ status }: { status: number }) => status === 403;
  const guessOn = () => until(guess, isRefused);
  let networks = 0;
  /** Between two steps on a busy machine the 5 s until the next allowed guess may pass, so each step guesses again. */
  const refused = (body: object) =>
    until(async () => {
      await guessOn();
      return logIn(`192.0.2.${++networks}`, body);
    }, isRefused);
  const wrong = await guessOn();
  assert.ok(guesses > 50);
  const right = await refused({ password });
  assert.is(right.body.code, 'code_required');
  const { request_id: _, ...response } = right.body;
  const { request_id: __, ...responseToGuess } = wrong.body;
  assert.equal(response, responseToGuess);
  const { text } = await mailbox.next(email, 'Code to sign in');
  const [code] = /^[\w-]{12}$/m.exec(text) ?? [];
  // The code without the password is rejected.
  await refused({ password: 'a guess', code });
  await refused({ password, code: 'another-code' });
  assert.is((await logIn('192.0.2.254', { password, code })).status, 200);
  // Two uses of the code give at most one session.
  await refused({ password, code });
  assert.is((await logIn('192.0.2.254', { password })).status, 200, 'the network is a known one after the sign-in');
});

test('only the hash of a link is stored, and an expired link is rejected', async () => {
  const { email } = await account();
  const { token } = await mailbox.next(email, VERIFY);
  const [row] = await onPlatform("select encode(hash, 'escape') as hash, t::text as all from platform.mail_tokens t");
  assert.ok(row);
  assert.is(JSON.stringify(row).includes(token), false);
  await onPlatform("update platform.mail_tokens set expires_at = now() - interval '1 s'");
  assert.is((await post('/auth/verify', { token, password })).body.code, 'link_invalid');
});

test('an account owns a project that kubectl applied for its address only after the address is verified', async () => {
  const { email, token } = await account();
  const ref = `mailed-${Date.now() % 100_000}`;
  await api.operator.apply(ref, { owner: email });
  await until(
    () => onPlatform('select from platform.projects where ref = $1', [ref]),
    (rows) => rows.length === 1,
  );
  await api.restart();
  const refs = async () =>
    (await api.call('GET', '/projects', { token })).body.map((project: { ref: string }) => project.ref);
  assert.equal(await refs(), []);
  const link = await mailbox.next(email, VERIFY);
  await post('/auth/verify', { token: link.token, password });
  await until(refs, (seen) => seen.includes(ref));
  await mailbox.next(email, 'A project was assigned to you');
  const heir = await account();
  await onPlatform('update platform.users set is_administrator = true where email = $1', [heir.email]);
  const assignment = await post(`/admin/projects/${ref}/owner`, { email: heir.email }, { token: heir.token });
  assert.is(assignment.status, 200);
  assert.match((await mailbox.next(email, 'A project was taken from you')).text, new RegExp(ref));
});

test('a verified account gets the projects of its address although an unverified account had the address', async () => {
  const stranger = await account();
  const { email } = stranger;
  assert.is((await post('/auth/me/delete', { password }, { token: stranger.token })).status, 200);
  const { token } = (await post('/auth/register', { email, password })).body;
  for (const link of [await mailbox.next(email, VERIFY), await mailbox.next(email, VERIFY)]) {
    await post('/auth/verify', { token: link.token, password });
  }
  const ref = `inherited-${Date.now() % 100_000}`;
  await api.operator.apply(ref, { owner: email });
  await until(
    async () => (await api.call('GET', '/projects', { token })).body,
    (projects: { ref: string }[]) => projects.some((project) => project.ref === ref),
  );
});

test('an account keeps only its newest former addresses', async () => {
  const { email, token } = await account();
  const changes = Array.from({ length: 23 }, (_, n) => `moved-${n}-${email}`);
  const [{ id } = { id: 0 }] = await onPlatform('select id from platform.users where email = $1', [email]);
  await onPlatform(
    `insert into platform.former_addresses (address, user_id, verified)
     select address, $1, false from unnest($2::text[]) address`,
    [id, changes],
  );
  await post('/auth/email', { email: `last-${email}`, password }, { token });
  const link = await mailbox.next(`last-${email}`, VERIFY);
  assert.is((await post('/auth/verify', { token: link.token, password })).status, 200);
  const kept = await onPlatform('select address from platform.former_addresses where user_id = $1 order by id', [id]);
  assert.equal(
    kept.map(({ address }) => address),
    [...changes.slice(4), email],
  );
});

test('a link resets a forgotten password once, and ends all sessions', async () => {
  const { email, token } = await account();
  const known = await post('/auth/password/forgot', { email });
  const unknown = await post('/auth/password/forgot', { email: 'nobody-here@example.com' });
  assert.equal([unknown.status, unknown.body], [known.status, known.body]);
  const link = await mailbox.next(email, RESET);
  assert.is((await post('/auth/verify', { token: link.token, password })).status, 400, 'a link has one purpose');
  const next = 'another long password';
  assert.is((await post('/auth/password/reset', { token: link.token, password: next })).status, 200);
  assert.is((await post('/auth/password/reset', { token: link.token, password: 'a third password' })).status, 400);
  assert.is(await statusOf(token), 401);
  assert.is((await post('/auth/login', { email, password: next })).status, 200);
  await mailbox.next(email, 'Your password was changed');
  assert.equal(mailbox.subjects('nobody-here@example.com'), []);
});

test('a password reset revokes tokens that an unverified account created before', async () => {
  const { email, token } = await account();
  const pat = (await post('/tokens', {}, { token })).body.token;
  await post('/auth/password/forgot', { email });
  const link = await mailbox.next(email, RESET);
  await post('/auth/password/reset', { token: link.token, password: 'known to the holder' });
  assert.equal([await statusOf(token), await statusOf(pat)], [401, 401]);
});

test('requests for further links keep earlier links valid, and are limited', async () => {
  const { email } = await account();
  await post('/auth/password/forgot', { email });
  const first = await mailbox.next(email, RESET);
  for (let again = 0; again < 12; again += 1) await post('/auth/password/forgot', { email });
  for (let more = 0; more < 4; more += 1) await mailbox.next(email, RESET);
  assert.is((await post('/auth/password/reset', { token: first.token, password: 'by the first link' })).status, 200);
  assert.equal(
    mailbox.subjects(email).filter((subject) => subject === RESET),
    [],
  );
});

test('a changed address is verified at the new one, and the old one gets a notice', async () => {
  const { email, token } = await account();
  const address = `new-${email}`;
  assert.equal((await post('/auth/email', { email: address, password }, { token })).body, { changed: false });
  await mailbox.next(email, 'The e-mail address of your account is being changed');
  assert.is((await api.call('GET', '/auth/me', { token })).body.email, email);
  const link = await mailbox.next(address, VERIFY);
  assert.is((await post('/auth/verify', { token: link.token, password: 'a stranger’s password' })).status, 401);
  assert.is((await post('/auth/verify', { token: link.token, password })).status, 200);
  assert.is((await api.call('GET', '/auth/me', { token })).body.email, address);
  await mailbox.next(email, 'The e-mail address of your account was changed');
});

test('a sign-in from a new network and a new token send a mail, a sign-in from a known network does not', async () => {
  const { email, token } = await account(from('198.51.100.1'));
  const login = (address: string) =>
    post('/auth/login', { email, password }, { headers: { ...from(address), 'user-agent': 'a browser' } });
  await login('198.51.100.1');
  await login('203.0.113.77');
  const mail = await mailbox.next(email, 'Sign-in from a new network');
  assert.match(mail.text, /203\.0\.113\.77.*a browser/s);
  await login('203.0.113.77');
  await post('/tokens', { name: 'ci\u202e https://evil.example' }, { token });
  assert.match((await mailbox.next(email, 'New personal access token')).text, /"ci {2}https:\/\/evil\.example"/);
  assert.equal(
    mailbox.subjects(email).filter((subject) => subject.startsWith('Sign-in')),
    [],
  );
});

test('links that a stranger requests for an address do not block the links of its holder', async () => {
  const holder = await account();
  const eve = await account();
  const address = `wanted-${holder.email}`;
  for (let again = 0; again < 8; again += 1)
    await post('/auth/email', { email: address, password }, { token: eve.token });
  await post('/auth/email', { email: address, password }, { token: holder.token });
  const links = [];
  for (let mail = 0; mail < 6; mail += 1) links.push((await mailbox.next(address, VERIFY)).token);
  const answers = await Promise.all(links.map((token) => post('/auth/verify', { token, password })));
  assert.ok(answers.some(({ status }) => status === 200));
});

test('an account may request links to at most ten addresses in a burst', async () => {
  const { email, token } = await account();
  const statuses = [];
  for (let one = 0; one < 11; one += 1)
    statuses.push((await post('/auth/email', { email: `stranger${one}-${email}`, password }, { token })).status);
  assert.equal(statuses, [...Array(10).fill(200), 429]);
});

test('the page of a link has its own content security policy, and inserts nothing from its URL', async () => {
  const page = await api.call('GET', '/auth/link?token=canary');
  assert.is(page.status, 200);
  assert.match(String(page.headers['content-security-policy']), /default-src 'none'; script-src 'sha256-/);
  assert.is(page.headers['referrer-policy'], 'no-referrer');
  assert.not.match(page.body, /canary/);
});

test.run();

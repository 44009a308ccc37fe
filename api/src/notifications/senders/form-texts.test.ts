/** Texts of mails and Slack messages about forms, whose fields anybody can name and fill in. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { letterOf } from './mail.js';
import { messageOf } from './slack.js';
import { noticeOf } from './texts.js';

const delivery = (data: object) => ({
  id: '1',
  eventId: 'e',
  type: 'form.received' as const,
  occurredAt: new Date('2026-01-05T10:00:00Z'),
  attempts: 0,
  data: {
    project: { id: 7, ref: 'abc', name: 'shop' },
    form: 'contact',
    entry: { id: '41', created_at: '2026-01-05T10:00:00.000Z', data },
  },
});
const letter = (data: object) => letterOf([delivery(data) as never], 'https://slipway.example.com');
const slack = (data: object) => messageOf([delivery(data)]);

test('a mail shows the fields of a form', () => {
  const { subject, text } = letter({ email: 'ada@example.com', topics: ['a', 'b'], n: 1 });
  assert.is(subject, 'A form was received: shop');
  for (const line of [
    '  form: "contact"',
    '  field email: "ada@example.com"',
    '  field topics: "a, b"',
    '  field n: "1"',
  ]) {
    assert.ok(text.split('\n').includes(line), line);
  }
});

test('a field begins no line of its own in a mail, and hides no text', () => {
  const before = letter({ a: 'b' });
  const hostile = 'x\r\nBcc: eve@example.com\n\u202e\u2028\u0000\u200b';
  const after = letter({ [hostile]: hostile });
  assert.is(after.subject, before.subject);
  assert.is(after.text.split('\n').length, before.text.split('\n').length);
  assert.not.match(after.text, /[\r\u202e\u2028\0\u200b]/);
});

test('a field does not look like a fact of the platform', () => {
  const { facts } = noticeOf(delivery({ project: 'another', form: 'other', __proto__: 'x' }));
  assert.equal(facts.slice(0, 3), [
    ['project', 'shop'],
    ['form', 'contact'],
    ['field project', 'another'],
  ]);
});

test('a field formats nothing in Slack, and mentions nobody', () => {
  const text = JSON.stringify(slack({ '<!channel>': '<https://evil.example|click> *b* `c` @here', '&lt;': '&' }));
  assert.not.match(text, /<!channel>|<https:/);
  assert.match(text, /field &lt;!channel&gt;/);
  assert.match(text, /\u200b@here/);
});

test('a message shows 20 fields, each up to 300 characters', () => {
  const data = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`f${at}`, 'x'.repeat(60_000)]));
  const { facts } = noticeOf(delivery(data));
  assert.equal([facts.length, facts.at(-1)], [23, ['further fields', '80']]);
  assert.ok(letter(data).text.length < 8_000);
  assert.ok(JSON.stringify(slack(data)).length < 4_000);
});

test.run();

import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { withoutSecrets } from './log-text.js';

test('text that looks like a secret is redacted', () => {
  const jwt = 'eyJhbGciOiJIUzI1NiJ9.eyJyb2xlIjoiYW5vbiJ9.Zm9v-YmFy_';
  const cases = [
    [`key ${jwt} there`, 'key [redacted] there'],
    [`a=${jwt}`, 'a=[redacted]'],
    ['GET /x?apikey=abc&b=c', 'GET /x?apikey=[redacted]&b=c'],
    ['{"password":"hunter2","a":1}', '{"password":"[redacted]","a":1}'],
    ['Authorization: Bearer abc.def', 'Authorization: Bearer [redacted]'],
    ['sent Basic dXNlcjpw now', 'sent Basic [redacted] now'],
    ['at postgresql://role:pa@ss@host:5432/db now', 'at postgresql://[redacted]@host:5432/db now'],
    ['refresh_token = abc', 'refresh_token = [redacted]'],
  ] as const;
  for (const [text, shown] of cases) assert.is(withoutSecrets(text), shown, text);
  for (const text of ['password authentication failed', 'GET https://a.example/b 200', 'version 1.2.3-eyed']) {
    assert.is(withoutSecrets(text), text);
  }
});

test.run();

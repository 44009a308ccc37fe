import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseLog, planOf } from './recording.js';

const LOG = [
  '2026-01-01 10:00:00.000 UTC [7] LOG:  execute identity: select set_config($1, $2, true)',
  "2026-01-01 10:00:00.000 UTC [7] DETAIL:  Parameters: $1 = 'role', $2 = 'it''s, $3 = ''x'''",
  '2026-01-01 10:00:00.001 UTC [7] LOG:  execute <unnamed>: select *',
  '\tfrom t where id = $1 and note is $2',
  "2026-01-01 10:00:00.001 UTC [7] DETAIL:  Parameters: $1 = '7', $2 = NULL",
  '2026-01-01 10:00:00.002 UTC [8] LOG:  connection received: host=[local]',
  '',
].join('\n');

test('statements are read from the log with text and values', () => {
  assert.equal(parseLog(LOG), [
    { text: 'select set_config($1, $2, true)', values: ['role', "it's, $3 = 'x'"] },
    { text: 'select *\nfrom t where id = $1 and note is $2', values: ['7', null] },
  ]);
});

test('a planned statement has the next request’s values in place of the recorded values', () => {
  const recorded = [{ text: 'select $1, $2, $3', values: ['7', '{"a":1}', 'x'] }];
  assert.equal(planOf(recorded, { id: 7, body: '{"a":1}' })[0]?.values, [
    { kind: 'id' },
    { kind: 'body' },
    { kind: 'constant', text: 'x' },
  ]);
});

test.run();

import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { projectPause } from './project-pause.js';

const OURS = 'slipway; error=project_paused; details="until 2026-11-25T02:10:00.000Z, rest request"';
const DETAILS = 'until 2026-11-25T02:10:00.000Z, rest request';

test('projectPause reads a pause from the gateway’s own part of Proxy-Status', () => {
  assert.is(projectPause(OURS), DETAILS);
  assert.is(projectPause(`${OURS}, ingress; received-status=503`), DETAILS);
  assert.is(projectPause(['PostgREST; error=PGRST301', OURS]), DETAILS);
});

test('projectPause finds no pause in other responses', () => {
  for (const header of [
    undefined,
    '',
    'PostgREST; error=project_paused',
    'slipway; error=other; details="x"',
    'not slipway; error=project_paused; details="x"',
    `slipway; error=project_paused; details="${'x'.repeat(201)}"`,
  ]) {
    assert.not(projectPause(header), header);
  }
});

test.run();

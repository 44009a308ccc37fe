/** Timeouts, retries, caches and limits use performance.now(), which no change of the system's time moves. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const root = fileURLToPath(new URL('../..', import.meta.url));
const FOLDERS = ['api', 'apiserver', 'crds', 'dataplane', 'operator', 'postgres', 'project-database', 'slipway'];
const FOR_TESTS = /\.(test|suite|testing)\.ts$|\/(testing|conformance|chaos)\b|reference-server\.ts$/;

/**
 * Files that compare with a time which another program, a file or a person wrote: an expiry, a lease, an age, a
 * certificate.
 */
const WALL_CLOCK = new Set([
  'api/src/accounts/accounts.service.ts',
  'api/src/health/health.service.ts',
  'api/src/tokens/tokens.service.ts',
  'apiserver/src/controllers/event-expiry.ts',
  'apiserver/src/resources/tables.ts',
  'dataplane/src/auth/admin/users.ts',
  'dataplane/src/auth/grant.ts',
  'dataplane/src/auth/hooks/http.ts',
  'dataplane/src/auth/mfa/factors.ts',
  'dataplane/src/auth/mfa/totp.ts',
  'dataplane/src/gateway/tokens.ts',
  'dataplane/src/realtime/changes/replication-session.ts',
  'dataplane/src/realtime/channel.ts',
  'dataplane/src/realtime/identity.ts',
  'dataplane/src/storage/index.ts',
  'dataplane/src/storage/partial-uploads.ts',
  'dataplane/src/storage/signed-token.ts',
  'operator/src/runtime/events.ts',
  'slipway/src/certificate.ts',
]);

test('no file but those that compare with a written time reads the wall clock in milliseconds', () => {
  const patterns = FOLDERS.map((folder) => `${folder}/src/*.ts`);
  const files = execFileSync('git', ['ls-files', '--', ...patterns], { cwd: root, encoding: 'utf8' }).split('\n');
  const readers = files.filter(
    (file) =>
      file !== '' && !FOR_TESTS.test(file) && readFileSync(path.join(root, file), 'utf8').includes('Date.now()'),
  );
  assert.equal(
    readers.filter((file) => !WALL_CLOCK.has(file)),
    [],
    'use performance.now(), or add the file to WALL_CLOCK if it compares with a time that was written elsewhere',
  );
});

test.run();

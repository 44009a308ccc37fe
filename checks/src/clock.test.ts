/**
 * Checks that timeouts, retries, caches and limits use performance.now(), which a change of the system time does not
 * affect.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { PRODUCT, root, sourcesIn } from './sources.js';

const FOR_TESTS = /\.(test|suite|testing)\.ts$|\/(testing|conformance|chaos)\b|reference-server\.ts$/;

/**
 * Files that may read the wall clock, because they compare it with a time that another program, a file or a person
 * wrote: an expiry, a lease, an age, a certificate.
 */
const WALL_CLOCK = new Set([
  'api/src/accounts/accounts.service.ts',
  'api/src/deploys/webhook-signatures.ts',
  'api/src/health/health.service.ts',
  'api/src/logs/logs.service.ts',
  'api/src/tokens/tokens.service.ts',
  'apiserver/src/controllers/event-expiry.ts',
  'apiserver/src/resources/tables.ts',
  'certificates/src/acme-authority.ts',
  'dataplane/src/services/auth/admin/users.ts',
  'dataplane/src/services/auth/sessions/grant.ts',
  'dataplane/src/services/auth/hooks/http.ts',
  'dataplane/src/services/auth/mfa/factors.ts',
  'dataplane/src/services/auth/mfa/totp.ts',
  'dataplane/src/gateway/refusals.ts',
  'dataplane/src/identity/tokens.ts',
  'dataplane/src/services/realtime/changes/replication-session.ts',
  'dataplane/src/services/realtime/channel.ts',
  'dataplane/src/services/realtime/identity.ts',
  'dataplane/src/services/storage/index.ts',
  'dataplane/src/services/storage/partial-uploads.ts',
  'dataplane/src/services/storage/signed-token.ts',
  'operator/src/engines/cloud/machines/project-snapshots.ts',
  'operator/src/engines/cloud/machines/record.ts',
  'operator/src/engines/kubernetes/builds/builds.ts',
  'operator/src/engines/postgres/database-sizes.ts',
  'operator/src/runtime/events.ts',
  'postgres/src/shared-copy.ts',
  'program/src/log-line.ts',
  'program/src/watchdog-thread.ts',
  'slipway/src/certificate.ts',
]);

test('no file reads the wall clock in milliseconds except to compare it with a stored time', () => {
  const readers = PRODUCT.flatMap(sourcesIn).filter(
    (file) => !FOR_TESTS.test(file) && readFileSync(path.join(root, file), 'utf8').includes('Date.now()'),
  );
  assert.equal(
    readers.filter((file) => !WALL_CLOCK.has(file)),
    [],
    'use performance.now(), or add the file to WALL_CLOCK if it compares with a time that was written elsewhere',
  );
});

test.run();

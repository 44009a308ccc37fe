/** Process for tests to kill: serves storage for one project, and reports its port. */

import { promises } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import type { AddressInfo } from 'node:net';
import { PROJECT_SERVICES } from '@slipway/crds';
import { pino } from 'pino';
import { createGateway } from '../../gateway/server.js';
import type { BackendTenant } from '../../projects/tenant.js';
import { createManagement } from '../../upstreams/management.js';
import type { S3Settings } from './content/s3.js';
import { createStorageService } from './index.js';

export interface ServeRequest {
  tenant: BackendTenant;
  directory: string;
  s3?: S3Settings;
  /** Undefined: any free port. */
  port?: number;
  /** Point at which it kills itself: a step of an upload, counted in renamed files. */
  death?: Death | undefined;
}

export interface Death {
  /** Counted from 1, since the start of the process. */
  rename: number;
  when: 'before' | 'after';
}

process.once('message', ({ tenant: request, directory, s3, port = 0, death }: ServeRequest) => {
  if (death) dieAt(death);
  const tenant = { ...request, services: new Set(PROJECT_SERVICES) };
  const log = pino({ level: 'silent' });
  const gateway = createGateway({
    publicUrl: 'http://localhost',
    tenant: (ref) => (ref === tenant.ref ? tenant : undefined),
    complete: () => true,
    services: { storage: createStorageService({ directory, s3, log }) },
    management: createManagement('/nonexistent/api.sock', 'http://localhost'),
    log,
  });
  gateway.listen(port, '127.0.0.1', () => process.send?.((gateway.address() as AddressInfo).port));
});
process.on('disconnect', () => process.exit(1));

function dieAt({ rename: at, when }: Death): void {
  const { rename } = promises;
  const die = () => process.kill(process.pid, 'SIGKILL');
  let count = 0;
  promises.rename = async (from, to) => {
    count++;
    if (count === at && when === 'before') die();
    await rename(from, to);
    if (count === at && when === 'after') die();
  };
  syncBuiltinESMExports();
}

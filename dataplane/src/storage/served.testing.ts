/** For tests that kill it: a process that serves storage for the one project it is told of, and says at which port. */
import type { AddressInfo } from 'node:net';
import { PROJECT_SERVICES } from '@slipway/crds';
import { pino } from 'pino';
import { createManagement } from '../gateway/management.js';
import { createGateway } from '../gateway/server.js';
import type { Tenant } from '../tenant.js';
import { createStorageService } from './index.js';

interface Told {
  tenant: Tenant;
  directory: string;
}

process.once('message', ({ tenant: told, directory }: Told) => {
  const tenant = { ...told, services: new Set(PROJECT_SERVICES) };
  const log = pino({ level: 'silent' });
  const gateway = createGateway({
    publicUrl: 'http://localhost',
    tenant: (ref) => (ref === tenant.ref ? tenant : undefined),
    complete: () => true,
    services: { storage: createStorageService({ directory, log }) },
    management: createManagement('/nonexistent/api.sock', 'http://localhost'),
    log,
  });
  gateway.listen(0, '127.0.0.1', () => process.send?.((gateway.address() as AddressInfo).port));
});
process.on('disconnect', () => process.exit(1));

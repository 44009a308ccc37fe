/**
 * Gateway for tests, with the data plane's watchdog. Its REST service hangs on `/spin` at once, on `/body` after the
 * body, and on `/late` in a later turn. In: the path of the record of hangs, the watchdog's limit, and the projects'
 * secrets as JSON. Out: its URL.
 */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { readHangs, startWatchdog } from '@slipway/program';
import { pino } from 'pino';
import { MAX_BODY_BYTES, receiveBody } from '../http/request-body.js';
import { PausedProjects } from '../projects/paused-projects.js';
import type { Service } from '../services/service.js';
import { signedKeys, tenantWithoutDatabase } from '../testing/tenant.js';
import { createManagement } from '../upstreams/management.js';
import { createGateway } from './server.js';

const [record = '', limitMs = '', secrets = '{}'] = process.argv.slice(2);
startWatchdog({ program: 'dataplane', record, limitMs: Number(limitMs) });

const spin = (): never => {
  for (;;);
};

const rest: Service = {
  handle: async ({ path, incoming, outgoing }) => {
    if (path === '/spin') spin();
    if (path === '/late') return void setTimeout(spin, 5);
    const body = await receiveBody(incoming, MAX_BODY_BYTES);
    if (path === '/body') spin();
    outgoing.end(`served ${body.length}`);
  },
  forget: async () => undefined,
  close: async () => undefined,
};

const tenants = new Map(
  await Promise.all(
    Object.entries(JSON.parse(secrets) as Record<string, string>).map(
      async ([ref, secret]) => [ref, tenantWithoutDatabase(ref, await signedKeys(secret))] as const,
    ),
  ),
);
const publicUrl = 'http://localhost:4000';
const server = createGateway({
  publicUrl,
  tenant: (ref) => tenants.get(ref),
  complete: () => true,
  services: { rest },
  paused: new PausedProjects(readHangs(record)),
  management: createManagement(undefined, publicUrl),
  log: pino({ level: 'silent' }),
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);

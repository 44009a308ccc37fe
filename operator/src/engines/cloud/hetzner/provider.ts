/**
 * Machines at Hetzner Cloud. In: the address of the API and the file of its token. Out: a MachineProvider. Importing
 * this module compiles the schemas of responses, so only an installation with a token should import it.
 */
import type { Labels, MachineProvider } from '../provider.js';
import { ProviderError } from '../provider-error.js';
import { choicesOf } from './choices.js';
import { type ClientOptions, HetznerClient, pathOf } from './client.js';
import { ensureFirewall } from './firewalls.js';
import { ensureKey } from './keys.js';
import { selectorOf } from './labels.js';
import {
  deleteServer,
  ensureServer,
  listServers,
  observeServer,
  resizeServer,
  runAction,
  shutDownServer,
} from './servers.js';
import { createSnapshot, deleteSnapshot, listSnapshots } from './snapshots.js';

/** The address of the provider's API. */
export const HETZNER_URL = 'https://api.hetzner.cloud/v1';

export function hetznerProvider(options: ClientOptions): MachineProvider {
  const client = new HetznerClient(options);
  return {
    choices: async (region, signal) => choicesOf(await client.list('server_types', {}, signal), region),
    ensureMachine: (request, signal) => ensureServer(client, request, signal),
    observe: (id, signal) => observeServer(client, id, signal),
    list: (labels, signal) => listServers(client, labels, signal),
    // After a lost response, a second reset could interrupt the boot that the first one began.
    reboot: (id, signal) => runAction(client, id, { name: 'reset', repeatable: false }, signal),
    shutDown: (id, signal) => shutDownServer(client, id, signal),
    powerOn: (id, signal) => runAction(client, id, { name: 'poweron', repeatable: true }, signal),
    resize: (id, to, signal) => resizeServer(client, id, to, signal),
    createSnapshot: (machine, request, signal) => createSnapshot(client, machine, request, signal),
    listSnapshots: (labels, signal) => listSnapshots(client, labels, signal),
    deleteSnapshot: (id, signal) => deleteSnapshot(client, id, signal),
    ensureKey: (request, signal) => ensureKey(client, request, signal),
    ensureFirewall: (request, signal) => ensureFirewall(client, request, signal),
    deleteFirewall: (id, signal) => client.deleteObject(pathOf('firewalls', id), signal),
    delete: (labels, signal) => deleteAll(client, labels, signal),
    close: () => client.close(),
  };
}

async function deleteAll(client: HetznerClient, labels: Labels, signal: AbortSignal) {
  for (const { id } of await listServers(client, labels, signal)) await deleteServer(client, id, signal);
  const listKeys = () => client.list('ssh_keys', selectorOf(labels), signal);
  for (const { id } of await listKeys()) await client.deleteObject(pathOf('ssh_keys', String(id)), signal);
  const left = [...(await listServers(client, labels, signal)), ...(await listKeys())].map(({ name }) => name);
  if (left.length > 0) {
    throw new ProviderError('unavailable', `The cloud provider has not deleted ${left.join(', ')} yet.`);
  }
}

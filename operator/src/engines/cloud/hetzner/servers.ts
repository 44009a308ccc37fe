/** Machines at the provider: creates, finds, switches, changes and deletes them. Actions are awaited. */
import { type Backoff, delayOf } from '@slipway/program';
import type { Labels, Machine, MachineRequest, MachineState } from '../provider.js';
import { isKind, ProviderError } from '../provider-error.js';
import { ApiError, hasCode } from './api-error.js';
import { type HetznerClient, pathOf } from './client.js';
import { createOnce, findByLabels } from './create-once.js';
import { selectorOf } from './labels.js';
import { responses, type Server } from './schemas.js';

const STATES: Readonly<Record<string, MachineState>> = {
  initializing: 'starting',
  starting: 'starting',
  running: 'running',
  stopping: 'stopping',
  off: 'off',
  deleting: 'deleting',
};

const machineOf = ({ server_type: type, public_net: net, ...server }: Server): Machine => ({
  id: String(server.id),
  name: server.name,
  labels: server.labels,
  state: STATES[server.status] ?? 'busy',
  address: net.ipv4?.ip,
  type: type.name,
  cores: type.cores,
  memoryGb: type.memory,
  diskGb: server.primary_disk_size ?? type.disk,
  location: server.location.name,
  createdAt: new Date(server.created),
  firewalls: net.firewalls.map((firewall) => String(firewall.id)),
});

export async function ensureServer(
  client: HetznerClient,
  request: MachineRequest,
  signal: AbortSignal,
): Promise<Machine> {
  const found = await findByLabels(client, 'servers', request.labels, signal);
  if (!found) return machineOf(await createAtFirstPlace(client, request, signal));
  const machine = machineOf(found);
  if (machine.state === 'deleting') {
    throw new ProviderError('unavailable', `The machine ${machine.name} of these labels is being deleted.`);
  }
  if (machine.firewalls.includes(request.firewall)) return machine;
  await applyFirewall(client, request.firewall, found.id, signal);
  return { ...machine, firewalls: [...machine.firewalls, request.firewall] };
}

async function createAtFirstPlace(
  client: HetznerClient,
  request: MachineRequest,
  signal: AbortSignal,
): Promise<Server> {
  const { name, labels } = request;
  const refusals: string[] = [];
  for (const choice of request.choices) {
    const create = (abort: AbortSignal) => postServer(client, request, choice, abort);
    try {
      return await createOnce(client, { kind: 'servers', name, labels, create }, signal);
    } catch (error) {
      if (!isOfPlace(error)) throw error;
      refusals.push(`${choice.type} in ${choice.location} (${error.failure.code})`);
    }
  }
  const tried = refusals.length > 0 ? refusals.join(', ') : 'none is offered in the region';
  throw new ProviderError('no-capacity', `The cloud provider can't place the machine. Tried: ${tried}.`);
}

/** Fields that an error names if the location stopped offering the type. */
const OF_PLACE = new Set(['server_type', 'location']);

/** True if another location may accept the request. */
function isOfPlace(error: unknown): error is ApiError {
  if (!(error instanceof ApiError)) return false;
  const { code, fields = [] } = error.failure;
  if (error.kind === 'no-capacity' || code === 'invalid_server_type') return true;
  return code === 'invalid_input' && fields.length > 0 && fields.every((field) => OF_PLACE.has(field));
}

async function postServer(
  client: HetznerClient,
  { name, labels, image, userData, keys, firewall }: MachineRequest,
  { type, location }: MachineRequest['choices'][number],
  signal: AbortSignal,
): Promise<Server> {
  const body = {
    name,
    labels,
    server_type: type,
    location,
    image: /^\d+$/.test(image) ? Number(image) : image,
    ssh_keys: keys.map(Number),
    firewalls: [{ firewall: Number(firewall) }],
    start_after_create: true,
    ...(userData !== undefined && { user_data: userData }),
  };
  const call = { method: 'POST', path: '/servers', body, response: responses.server, repeatable: false } as const;
  return (await client.request(call, signal)).server;
}

async function applyFirewall(
  client: HetznerClient,
  firewall: string,
  server: number,
  signal: AbortSignal,
): Promise<void> {
  const path = `${pathOf('firewalls', firewall)}/actions/apply_to_resources`;
  const body = { apply_to: [{ type: 'server', server: { id: server } }] };
  const call = { method: 'POST', path, body, response: responses.actions, repeatable: true } as const;
  try {
    const { actions } = await client.request(call, signal);
    for (const action of actions) await client.finish(action, signal);
  } catch (error) {
    if (!hasCode(error, 'firewall_already_applied')) throw error;
  }
}

async function findServer(client: HetznerClient, id: string, signal: AbortSignal): Promise<Server | undefined> {
  try {
    const call = { method: 'GET', path: pathOf('servers', id), response: responses.server, repeatable: true } as const;
    return (await client.request(call, signal)).server;
  } catch (error) {
    if (isKind(error, 'not-found')) return undefined;
    throw error;
  }
}

export async function observeServer(
  client: HetznerClient,
  id: string,
  signal: AbortSignal,
): Promise<Machine | undefined> {
  const server = await findServer(client, id, signal);
  return server && machineOf(server);
}

export const listServers = async (client: HetznerClient, labels: Labels, signal: AbortSignal): Promise<Machine[]> =>
  (await client.list('servers', selectorOf(labels), signal)).map(machineOf);

const SHUTDOWN_POLL: Backoff = { firstMs: 500, maxMs: 3_000, jitter: 0.2 };
/** They take more than two minutes, for which systemd waits for Postgres. */
const SHUTDOWN_LOOKS = 50;

/** `repeatable`: executing it twice has the effect of once. */
export interface ServerAction {
  name: 'reset' | 'shutdown' | 'poweroff' | 'poweron' | 'change_type';
  repeatable: boolean;
  body?: object;
}

export async function runAction(
  client: HetznerClient,
  id: string,
  action: ServerAction,
  signal: AbortSignal,
): Promise<void> {
  const { name, repeatable, body } = action;
  const path = `${pathOf('servers', id)}/actions/${name}`;
  const call = { method: 'POST', path, response: responses.action, repeatable, ...(body && { body }) } as const;
  await client.finish((await client.request(call, signal)).action, signal);
}

/** The provider reports that the request was sent, not that the system has ended. */
export async function shutDownServer(client: HetznerClient, id: string, signal: AbortSignal): Promise<void> {
  const isOff = async () => (await findServer(client, id, signal))?.status === 'off';
  if (await isOff()) return;
  await runAction(client, id, { name: 'shutdown', repeatable: true }, signal);
  for (let attempt = 1; attempt <= SHUTDOWN_LOOKS; attempt += 1) {
    if (await isOff()) return;
    await client.pause(delayOf(SHUTDOWN_POLL, attempt), signal);
  }
  await runAction(client, id, { name: 'poweroff', repeatable: true }, signal);
}

export async function resizeServer(
  client: HetznerClient,
  id: string,
  { type, growDisk }: { type: string; growDisk: boolean },
  signal: AbortSignal,
): Promise<void> {
  const server = await findServer(client, id, signal);
  if (!server) throw new ProviderError('not-found', `The cloud provider has no machine with the id ${id}.`);
  if (server.server_type.name === type) return;
  const body = { server_type: type, upgrade_disk: growDisk };
  await runAction(client, id, { name: 'change_type', repeatable: false, body }, signal);
}

/** Deletes the machine. Resolves too if it does not exist. */
export async function deleteServer(client: HetznerClient, id: string, signal: AbortSignal): Promise<void> {
  const call = { method: 'DELETE', path: pathOf('servers', id), response: responses.action, repeatable: true } as const;
  try {
    await client.finish((await client.request(call, signal)).action, signal);
  } catch (error) {
    if (!isKind(error, 'not-found')) throw error;
  }
}

/** SSH keys at the provider. A new machine accepts them for root. */
import type { KeyRequest } from '../provider.js';
import { type HetznerClient, pathOf } from './client.js';
import { createOnce, findByLabels } from './create-once.js';
import { responses } from './schemas.js';

/** Returns the type and the key, without the comment. */
const bare = (publicKey: string) => publicKey.trim().split(/\s+/).slice(0, 2).join(' ');

export async function ensureKey(client: HetznerClient, request: KeyRequest, signal: AbortSignal): Promise<string> {
  const { name, labels, publicKey } = request;
  const found = await findByLabels(client, 'ssh_keys', labels, signal);
  if (found && bare(found.public_key) === bare(publicKey)) return String(found.id);
  if (found) await client.deleteObject(pathOf('ssh_keys', String(found.id)), signal);
  const body = { name, labels, public_key: bare(publicKey) };
  const call = { method: 'POST', path: '/ssh_keys', body, response: responses.key, repeatable: false } as const;
  const create = async (abort: AbortSignal) => (await client.request(call, abort)).ssh_key;
  return String((await createOnce(client, { kind: 'ssh_keys', name, labels, create }, signal)).id);
}

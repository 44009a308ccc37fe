/**
 * The secrets of a machine, and what is known of it, in a Secret of the platform's own namespace. No tenant can read
 * it. In: the Kubernetes API and a project. Out: values that are generated once, and written before they are used.
 */
import { randomBytes } from 'node:crypto';
import { selfSigned } from '@slipway/certificates/self-signed.js';
import { LABEL_MANAGED_BY, MANAGED_BY, SYSTEM_NAMESPACE } from '@slipway/installation';
import { isNotFound, type KubeClient } from '@slipway/kubernetes';
import ssh2 from 'ssh2';
import { generatedSecret } from '../../../runtime/generated-secret.js';
import { ownerReference } from '../../../runtime/owner-reference.js';
import { type MachineOwner, nameOf } from './labels.js';

/** All values are text. A missing one is not known yet. */
export interface MachineRecord {
  /** The key of the operator, in the format of OpenSSH. */
  sshPrivateKey: string;
  sshPublicKey: string;
  /** The host key of the first boot. */
  bootPrivateKey: string;
  bootPublicKey: string;
  /** The password of Postgres' superuser. */
  superuserPassword: string;
  /** In PEM. */
  certificate: string;
  certificateKey: string;
  /** The provider's id of the machine. */
  machineId?: string;
  /** The fingerprint of the host key that the machine made itself. */
  hostKey?: string;
  /** The id of the machine whose sshd has that host key alone. */
  pinnedFor?: string;
  /** The id of the machine that had the project's data once. */
  servedFrom?: string;
}

const CERTIFICATE_MS = 10 * 365 * 24 * 60 * 60_000;
const secretPath = (uid: string) => `/api/v1/namespaces/${SYSTEM_NAMESPACE}/secrets/${secretName(uid)}`;
const secretName = (uid: string) => `machine.${uid}`;

/** Makes the record if there is none. */
export async function readRecord(
  client: KubeClient,
  owner: MachineOwner,
  installation: string,
): Promise<MachineRecord> {
  const isThere = await client.get(secretPath(owner.uid)).then(
    () => true,
    (error: unknown) => {
      if (!isNotFound(error)) throw error;
      return false;
    },
  );
  // Making a certificate loads a library of 20 MB.
  const fresh: Partial<MachineRecord> = isThere ? {} : await newRecord(nameOf(installation, owner));
  const values = await generatedSecret(client, {
    namespace: SYSTEM_NAMESPACE,
    name: secretName(owner.uid),
    labels: { [LABEL_MANAGED_BY]: MANAGED_BY },
    ownerReferences: [ownerReference(owner)],
    make: () => ({ ...(fresh as Record<string, string>) }),
  });
  return values as unknown as MachineRecord;
}

/** Writes the values before they are used. Undefined removes one. */
export async function changeRecord(
  client: KubeClient,
  { uid }: MachineOwner,
  record: MachineRecord,
  change: { [Key in keyof MachineRecord]?: string | undefined },
): Promise<MachineRecord> {
  const data = Object.fromEntries(
    Object.entries(change).map(([key, value]) => [key, value === undefined ? null : base64(value)]),
  );
  await client.patch(secretPath(uid), { data });
  return { ...record, ...change } as MachineRecord;
}

export async function deleteRecord(client: KubeClient, { uid }: MachineOwner): Promise<void> {
  await client.delete(secretPath(uid)).catch((error: unknown) => {
    if (!isNotFound(error)) throw error;
  });
}

const base64 = (text: string) => Buffer.from(text).toString('base64');

async function newRecord(name: string): Promise<MachineRecord> {
  const ssh = newKeys();
  const now = Date.now();
  const { certificate, privateKey } = await selfSigned(name, {
    // The clock of the machine may be late.
    notBefore: now - 24 * 60 * 60_000,
    notAfter: now + CERTIFICATE_MS,
  });
  return {
    sshPrivateKey: ssh.private,
    sshPublicKey: ssh.public,
    ...newBootKeys(),
    superuserPassword: randomBytes(24).toString('base64url'),
    certificate,
    certificateKey: privateKey,
  };
}

/** Another machine must not have the host key that a former one had in its user data. */
export function newBootKeys(): Pick<MachineRecord, 'bootPrivateKey' | 'bootPublicKey'> {
  const keys = newKeys();
  return { bootPrivateKey: keys.private, bootPublicKey: keys.public };
}

const newKeys = () => ssh2.utils.generateKeyPairSync('ed25519');

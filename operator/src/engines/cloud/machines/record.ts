/**
 * The secrets of a machine, and what is known of it, in a Secret of the platform's own namespace. No tenant can read
 * it. In: the Kubernetes API and a project. Out: values that are generated once, and written before they are used.
 */
import { randomBytes } from 'node:crypto';
import { selfSigned } from '@slipway/certificates/self-signed.js';
import { LABEL_MANAGED_BY, MANAGED_BY, SYSTEM_NAMESPACE } from '@slipway/installation';
import { isNotFound, type KubeClient, type KubeObject } from '@slipway/kubernetes';
import { parseJson } from '@slipway/program';
import { generatedSecret } from '../../../runtime/generated-secret.js';
import { ownerReference } from '../../../runtime/owner-reference.js';
import { type MachineOwner, nameOf } from './labels.js';
import { newSshKeys } from './ssh-keys.js';

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
  /** The id of the machine that has had the project's data, or could have had it. It is never replaced. */
  servedFrom?: string;
  /** `yes` from before a machine is ordered until its deletion: one may exist although `machineId` is missing. */
  ordered?: string;
  /** The number of the request to provision the machine, to which `failed` belongs. */
  provision?: string;
  /**
   * From the decision to delete the machine until its deletion is complete: `yes` for one that failed, `restore` for
   * one that gives way to a snapshot.
   */
  failing?: string;
  /** How many machines failed. */
  failed?: string;
  /** The Failure of the last machine, in JSON. */
  failure?: string;
  /** The time of the last reboot by the operator, in ISO 8601. */
  rebootedAt?: string;
  /** The nominal size of the machine, which the plan had when the machine was created or resized. */
  size?: string;
  /** The ids of the project's snapshots by name, in JSON. An empty one is that of a snapshot whose creation began. */
  snapshots?: string;
  /** A Restoring in JSON, from before the former machine is deleted until the restored one is configured. */
  restoring?: string;
  /** The answer to the last request for a restore, in JSON. */
  restored?: string;
  /** The answer to the last request for another size, in JSON. */
  resized?: string;
}

/** The snapshot from which the machine is made. */
export interface Restoring {
  /** The number of the request. */
  number: number;
  /** The name of the snapshot. */
  snapshot: string;
  /** The provider's id of the snapshot. */
  image: string;
  /** The smallest disk that it fits. */
  diskGb: number;
}

export const restoringOf = ({ restoring }: MachineRecord): Restoring | undefined =>
  restoring === undefined ? undefined : (parseJson(restoring) as Restoring);

export type RecordChange = { [Key in keyof MachineRecord]?: string | undefined };

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
  change: RecordChange,
): Promise<MachineRecord> {
  const data = Object.fromEntries(
    Object.entries(change).map(([key, value]) => [key, value === undefined ? null : base64(value)]),
  );
  await client.patch(secretPath(uid), { data });
  return { ...record, ...change } as MachineRecord;
}

/** Returns the record as it is. Undefined: there is none. */
export async function findRecord(client: KubeClient, { uid }: MachineOwner): Promise<MachineRecord | undefined> {
  try {
    const { data = {} } = await client.get<KubeObject & { data?: Record<string, string> }>(secretPath(uid));
    const texts = Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]);
    return Object.fromEntries(texts) as MachineRecord;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

export async function deleteRecord(client: KubeClient, { uid }: MachineOwner): Promise<void> {
  await client.delete(secretPath(uid)).catch((error: unknown) => {
    if (!isNotFound(error)) throw error;
  });
}

const REBOOT_MS = 60 * 60_000;

/** True if the operator has not rebooted the machine within the last hour. */
export const mayReboot = ({ rebootedAt }: Pick<MachineRecord, 'rebootedAt'>, now = Date.now()): boolean =>
  rebootedAt === undefined || Math.abs(now - Date.parse(rebootedAt)) >= REBOOT_MS;

const base64 = (text: string) => Buffer.from(text).toString('base64');

async function newRecord(name: string): Promise<MachineRecord> {
  const ssh = newSshKeys();
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
  const keys = newSshKeys();
  return { bootPrivateKey: keys.private, bootPublicKey: keys.public };
}

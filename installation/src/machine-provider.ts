/**
 * The provider of machines for dedicated projects. In: variables, which all programs of an installation read. Out:
 * whether there is one. Only the operator reads the token.
 */
export const MACHINE_TOKEN_SETTING = 'SLIPWAY_HCLOUD_TOKEN_FILE';
export const MACHINE_URL_SETTING = 'SLIPWAY_HCLOUD_URL';
export const MACHINE_LABEL_SETTING = 'SLIPWAY_HCLOUD_LABEL';
export const MACHINE_SNAPSHOT_SETTING = 'SLIPWAY_HCLOUD_SNAPSHOT';
export const MACHINE_MOST_SETTING = 'SLIPWAY_HCLOUD_MAX_MACHINES';
export const MACHINE_ORPHANS_SETTING = 'SLIPWAY_HCLOUD_ORPHANS';

/**
 * Returns the socket at which the functions on a project's own machine are controlled. `host`: that of the project's
 * database, a folder of sockets which lead to the machine.
 */
export const machineFunctionsSocket = (host: string): string => `${host}/functions.sock`;

/** A part of the names of machines, which are host names of at most 63 characters. */
const LABEL_FORM = /^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$/;

/** Throws an error that names the variable. */
export function readMachineLabel(value: string | undefined): string | undefined {
  if (!value || LABEL_FORM.test(value)) return value || undefined;
  throw new Error(
    `${MACHINE_LABEL_SETTING} is ${JSON.stringify(value)}: set at most 20 lowercase letters, digits and hyphens`,
  );
}

/** True if new machines boot from a snapshot with the software. Throws an error that names the variable. */
export function readMachineSnapshot(value: string | undefined): boolean {
  if (!value || value === 'on' || value === 'off') return value !== 'off';
  throw new Error(`${MACHINE_SNAPSHOT_SETTING} is ${JSON.stringify(value)}: set on or off`);
}

const DEFAULT_MOST = 20;

/** Returns the most machines that dedicated projects have together. Throws an error that names the variable. */
export function readMachineMost(value: string | undefined): number {
  if (!value) return DEFAULT_MOST;
  if (/^\d{1,4}$/.test(value)) return Number(value);
  throw new Error(`${MACHINE_MOST_SETTING} is ${JSON.stringify(value)}: set a number from 0 to 9999`);
}

/** True if machines of no project are deleted. Throws an error that names the variable. */
export function readMachineOrphans(value: string | undefined): boolean {
  if (!value || value === 'keep' || value === 'delete') return value === 'delete';
  throw new Error(`${MACHINE_ORPHANS_SETTING} is ${JSON.stringify(value)}: set keep or delete`);
}

/** Throws an error that names the variable. */
export function readMachineUrl(value: string | undefined): string | undefined {
  if (!value) return undefined;
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url && /^https?:$/.test(url.protocol) && !url.username && !url.search && !url.hash) return value;
  throw new Error(`${MACHINE_URL_SETTING} is ${JSON.stringify(value)}: set an address, such as https://api.example/v1`);
}

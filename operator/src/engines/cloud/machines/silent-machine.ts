/** Responds to the silence of a machine with data: it is rebooted at most once an hour, and never replaced. */
import type { Logger } from 'pino';
import type { EngineProject } from '../../../capabilities/index.js';
import type { MachineOrders } from './machine-orders.js';
import { type MachineRecord, mayReboot, type RecordChange } from './record.js';
import { servicesAnswer } from './service-probe.js';

export interface SilentMachine {
  orders: MachineOrders;
  log: Logger;
  project: EngineProject;
  machineId: string;
  host: string;
  record: MachineRecord;
  change(change: RecordChange): Promise<MachineRecord>;
}

/** Returns a sentence for the project's owner. Empty if the machine is no longer running. */
export async function respondToSilence(silent: SilentMachine, signal: AbortSignal): Promise<string> {
  const { orders, log, project, machineId, host, record, change } = silent;
  if (await servicesAnswer(host, record.certificate)) {
    return 'The services answer. Changes do not reach the machine until SSH does.';
  }
  if (!mayReboot(record)) {
    return `The machine was rebooted at ${record.rebootedAt}. Look at its console at the provider.`;
  }
  // The list of machines may be older than the silence.
  if ((await orders.observe(machineId, signal))?.state !== 'running') return '';
  if (!orders.claimReboot()) return 'Another machine was rebooted a moment ago, so this one waits.';
  // Written first, so that a killed operator does not reboot the machine twice.
  await change({ rebootedAt: new Date().toISOString() });
  log.warn({ ref: project.ref, machine: machineId }, 'silent machine rebooted');
  await orders.provider.reboot(machineId, signal);
  return 'The machine is rebooted.';
}

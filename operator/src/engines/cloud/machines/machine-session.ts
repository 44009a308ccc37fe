/** The SSH connection to one machine. It is opened again when it ended, or when the machine has another address. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { SshClient } from '../ssh/ssh-client.js';
import { SshError } from '../ssh/ssh-error.js';
import { openSession } from './first-session.js';
import type { MachineRecord, RecordChange } from './record.js';
import { StageProblem } from './stages.js';

export interface Session {
  machineId: string;
  host: string;
  ssh: SshClient;
  /** The address of the operator, as the machine sees it. */
  platform: string;
}

interface Holder {
  readonly record: MachineRecord;
  change(change: RecordChange): Promise<MachineRecord>;
}

const CONNECT_POLL_MS = 500;

export class MachineSession {
  #session: Session | undefined;

  /** `beforeClose`: closes what uses the connection. */
  constructor(private readonly beforeClose: () => Promise<void>) {}

  /** Undefined: there is no connection now. */
  get ssh(): SshClient | undefined {
    return this.#session?.ssh;
  }

  /** Tries until the signal aborts. Rejects at once for an error that does not end with the boot. */
  async open(machineId: string, host: string, holder: Holder, signal: AbortSignal): Promise<Session> {
    const known = this.#session;
    if (known?.machineId === machineId && known.host === host && (await isOpen(known.ssh, signal))) return known;
    await this.close();
    const change = (changes: RecordChange) => holder.change(changes);
    for (let why = 'no response'; ; ) {
      try {
        const ssh = await openSession({ host, machineId, change, record: holder.record }, signal);
        this.#session = { machineId, host, ssh, platform: '' };
        const { stdout } = await ssh.run(['sh', '-c', 'echo "$SSH_CONNECTION"'], {}, signal);
        this.#session.platform = stdout.split(' ')[0] ?? '';
        return this.#session;
      } catch (error) {
        await this.close();
        if (!signal.aborted) {
          if (!mayPass(error, holder.record.pinnedFor === machineId)) throw error;
          why = (error as Error).message;
          await sleep(CONNECT_POLL_MS, undefined, { signal }).catch(() => undefined);
        }
        if (signal.aborted) throw new StageProblem('SshUnreachable', `it did not succeed in time. ${why}`, true);
      }
    }
  }

  async close(): Promise<void> {
    await this.beforeClose();
    await this.#session?.ssh.close();
    this.#session = undefined;
  }
}

/** False if the connection ended, and no other one can be opened now. */
async function isOpen(ssh: SshClient, signal: AbortSignal): Promise<boolean> {
  try {
    await ssh.hostKey(signal);
    return true;
  } catch (error) {
    if (signal.aborted || !(error instanceof SshError) || !error.retryable) throw error;
    return false;
  }
}

/**
 * True for an error that ends with the boot. sshd may run before cloud-init has written the keys, so another host key
 * or a refused login is final only on a machine that was reachable once.
 */
function mayPass(error: unknown, wasReachable: boolean): boolean {
  if (!(error instanceof SshError)) return false;
  if (error.retryable) return true;
  return !wasReachable && (error.kind === 'host-key-changed' || error.kind === 'unauthorized');
}

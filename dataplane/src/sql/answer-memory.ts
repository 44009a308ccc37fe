/**
 * Limits the memory that a tenant's database can use in this process. One result has its own limit. Results that are
 * being received, or that wait for a slow client, share budgets of their project, its account and the process. In: byte
 * counts. Out: whether there is room.
 */

import { ReservedBytes } from '../bounds/reserved-bytes.js';
import type { Login } from './login.js';

const MIB = 1024 * 1024;

export const ANSWER_LIMITS = {
  /** All messages of the result of one batch, and thus each of them. */
  answerBytes: 64 * MIB,
  /** One message other than data: an error, a notice, a notification. */
  reportBytes: 256 * 1024,
  /** Results of one project that are being received or sent, on the connections of all services. */
  projectBytes: 128 * MIB,
  /** Maximum bytes of the results of all projects of one account. */
  accountBytes: 192 * MIB,
  /** Maximum bytes of the results of all projects in this process. */
  allBytes: 256 * MIB,
  /** Maximum bytes of everything that a server sends before the first statement. */
  loginBytes: MIB,
};

/**
 * Bytes from which a result counts against the shared budgets. Smaller results reserve nothing, so frequent requests
 * cost nothing here.
 */
export const COUNTED_FROM = MIB;

const [byDatabase, byAccount, byProcess] = [
  new Map<string, number>(),
  new Map<string, number>(),
  new Map<string, number>(),
];

/** Bytes that one result reserves in the budgets. Its creator calls `end`. */
export class HeldAnswer extends ReservedBytes {
  constructor({ host, port, database, account }: Pick<Login, 'host' | 'port' | 'database' | 'account'>) {
    const name = `${host}:${port}/${database}`;
    const { projectBytes, accountBytes, allBytes } = ANSWER_LIMITS;
    super([
      { reserved: byDatabase, holder: name, most: projectBytes },
      // A project without an owner counts by itself.
      { reserved: byAccount, holder: account ?? name, most: accountBytes },
      { reserved: byProcess, holder: '', most: allBytes },
    ]);
  }
}

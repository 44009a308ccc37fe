/** A session of a project's owner that does no harm, for tests of the watches. */
import type { TenantSession } from './harm.js';

export function sessionOf(project: string, pid: number): TenantSession {
  return {
    pid,
    startedAt: 'now',
    database: `p-${project}`,
    account: `${project}@example.com`,
    role: `postgres.${project}`,
    isOwner: true,
    locks: 1,
    predicateLocks: 0,
    memory: 0,
    growth: 0,
    temporaryFiles: 0,
    transactionId: '7',
    analyzeMs: null,
  };
}

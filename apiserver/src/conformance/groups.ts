/** The groups of cases that a server must pass, by name. The cases of kubectl run only if it is on PATH. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { clients } from './clients.js';
import { deletion } from './deletion.js';
import { limits } from './limits.js';
import { patches } from './patches.js';
import { reads } from './reads.js';
import type { Cases } from './suite.js';
import { writes } from './writes.js';

const run = promisify(execFile);

export async function caseGroups(): Promise<Record<string, Cases>> {
  const groups: Record<string, Cases> = { writes, patches, reads, deletion, limits };
  const hasKubectl = await run('kubectl', ['version', '--client']).then(
    () => true,
    () => false,
  );
  if (hasKubectl) return { ...groups, clients };
  console.log('# skipped: the cases of kubectl, as there is no kubectl on PATH');
  return groups;
}

/**
 * A program that drives one project as the controller does, for tests that kill it. In: the path of a file with its
 * orders. Out: a line of JSON for each change of the outcome.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { EngineProject } from '../../../capabilities/index.js';
import { clientOf } from '../../../testing.js';
import { type OperatorPlace, operatorOf, stepOf } from './faults.testing.js';

export interface KilledOrders {
  kubeconfig: string;
  place: OperatorPlace;
  project: EngineProject;
  work: 'drive' | 'remove';
}

export interface KilledReport {
  state: string;
  /** The last stage that has begun, by its condition. */
  at: string | undefined;
  message?: string;
}

const POLL_MS = 20;

const { kubeconfig, place, project, work } = JSON.parse(
  readFileSync(process.argv[2] as string, 'utf8'),
) as KilledOrders;
const machines = operatorOf(await clientOf(kubeconfig), place);
let last = '';
for (;;) {
  const { outcome, parts } =
    work === 'drive'
      ? await stepOf(machines, project)
      : { outcome: await machines.remove(project), parts: [] as { condition: string }[] };
  const message = 'message' in outcome ? { message: outcome.message } : {};
  const report: KilledReport = { state: outcome.state, at: parts.at(-1)?.condition, ...message };
  const line = JSON.stringify(report);
  if (line !== last) console.log(line);
  last = line;
  await sleep(POLL_MS);
}

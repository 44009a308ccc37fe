/**
 * Tests that an operator which is killed with SIGKILL in any stage of a machine is followed by one that continues, on
 * real machines at the address that SLIPWAY_TEST_CLOUD_URL names. The operator is a program that drives one project.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { keepForReport } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineProject } from '../../../capabilities/index.js';
import { cloudUrl, FaultBed, LIMITS } from './faults.testing.js';
import type { KilledOrders, KilledReport } from './killed-operator.testing.js';

if (!cloudUrl) console.log('# skipped: SLIPWAY_TEST_CLOUD_URL names no server of the cloud provider’s API');
const kills = suite('killed operators');
const test = cloudUrl ? kills : kills.skip;

const PROGRAM = fileURLToPath(new URL('./killed-operator.testing.js', import.meta.url));
const CREATE = /^POST \/servers$/;
/** Milliseconds after the beginning of a stage: its first step, and later ones. */
const MOMENTS = [
  ['MachineReserved', [0]],
  ['MachineCreated', [0]],
  ['MachineBooted', [0, 400]],
  ['MachineReachable', [0, 400, 1_500]],
  ['SoftwareInstalled', [0, 400, 1_500]],
  ['MachineConfigured', [0, 400, 1_500, 5_000]],
  ['UnitsRunning', [0, 400]],
] as const;
const CONDITIONS: readonly string[] = MOMENTS.map(([condition]) => condition);
const PATIENCE_MS = 150_000;

let bed: FaultBed;
const running = new Set<ChildProcess>();
kills.before(async () => {
  if (cloudUrl) bed = await FaultBed.start();
});
kills.after(async () => {
  for (const program of running) program.kill('SIGKILL');
  await bed?.close();
});

type Wanted = (report: KilledReport) => boolean;

/** Runs an operator until it reports what is wanted, and kills it after the delay. Returns that report. */
async function killedAt(
  project: EngineProject,
  wanted: Wanted,
  { delayMs = 0, work = 'drive' as KilledOrders['work'] } = {},
): Promise<KilledReport> {
  const file = path.join(bed.folder, 'orders.json');
  // The clock of each process begins anew, but a stage on this machine takes longer when it was interrupted.
  const place = { ...bed.place, limits: { ...LIMITS, install: 60_000, total: 200_000 } };
  const orders: KilledOrders = { kubeconfig: bed.kubeconfig, place, project, work };
  writeFileSync(file, JSON.stringify(orders));
  const program = spawn(process.execPath, [PROGRAM, file], { stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(program);
  program.stderr.on('data', (text: Buffer) => keepForReport(String(text)));
  const timer = setTimeout(() => program.kill('SIGKILL'), PATIENCE_MS);
  try {
    let last = '';
    for await (const line of createInterface({ input: program.stdout })) {
      last = line;
      keepForReport(`${line}\n`);
      const report = JSON.parse(line) as KilledReport;
      if (!wanted(report)) continue;
      await sleep(delayMs);
      return report;
    }
    throw new Error(`the operator ended, or did not report what is wanted in time. The last report: ${last}`);
  } finally {
    clearTimeout(timer);
    program.kill('SIGKILL');
    if (program.exitCode === null && program.signalCode === null) await once(program, 'exit');
    running.delete(program);
  }
}

const isReady: Wanted = ({ state }) => state === 'ready';
const hasReached =
  (condition: string): Wanted =>
  ({ state, at = '' }) =>
    state === 'ready' || CONDITIONS.indexOf(at) >= CONDITIONS.indexOf(condition);

const sql = (project: EngineProject, statement: string) =>
  bed.sh(
    project,
    'PGPASSWORD=$(cat /etc/slipway/postgres/superuser-password) ' +
      `psql -h /run/slipway/postgres -U slipway -d postgres -tAc "${statement}"`,
  );

async function removed(project: EngineProject): Promise<void> {
  await killedAt(project, isReady, { work: 'remove' });
  assert.equal(await bed.left(project), []);
  assert.is(await bed.record(project), undefined);
}

test('an operator that is killed in each stage again and again leaves one machine that becomes ready', async () => {
  const project = await bed.project('stages');
  // A creation takes a moment, and the machine is off afterwards, so that these stages can be hit.
  bed.inject(project, { match: CREATE, times: 1, delayMs: 1_000, boot: 'off' });
  const hits: string[] = [];
  for (const [condition, delays] of MOMENTS) {
    for (const delayMs of delays) {
      const { at, state, message } = await killedAt(project, hasReached(condition), { delayMs });
      assert.is.not(state, 'failed', message);
      hits.push(`${at}`);
      console.log(`# killed ${delayMs} ms after ${condition} was wanted and ${at} reached`);
    }
  }
  assert.equal([...new Set(hits)], CONDITIONS);
  await killedAt(project, isReady);
  assert.is(bed.count(CREATE, project), 1);
  assert.is(bed.most(project), 1);
  assert.is((await bed.servers(project)).length, 1);
  const { machineId, servedFrom } = (await bed.record(project)) ?? {};
  assert.is(servedFrom, machineId);
  await removed(project);
});

test('a creation that is executed after the operator was killed is found by the next one', async () => {
  const project = await bed.project('late');
  bed.inject(project, { match: CREATE, times: 1, delayMs: 2_500 });
  await killedAt(project, hasReached('MachineCreated'), { delayMs: 500 });
  assert.is((await bed.servers(project)).length, 0, 'the creation is still under way');
  await killedAt(project, isReady);
  assert.is(bed.most(project), 1);
  assert.is((await bed.servers(project)).length, 1);
  assert.is((await bed.record(project))?.failed, undefined, 'the late machine serves');
  await removed(project);
});

test('rows outlive operators that are killed while they look after the machine and change it', async () => {
  const project = await bed.project('rows');
  await killedAt(project, isReady);
  const { id } = await bed.server(project);
  await sql(project, 'CREATE TABLE kept AS SELECT 42 AS n');
  for (const delayMs of [0, 300, 1_000, 2_000]) {
    await bed.sh(project, 'echo "# edited" >> /etc/slipway/nginx/nginx.conf; systemctl stop slipway-realtime');
    await killedAt(project, () => true, { delayMs });
  }
  await bed.call('POST', `/servers/${id}/actions/poweroff`);
  await killedAt(project, hasReached('MachineBooted'), { delayMs: 500 });
  await killedAt(project, isReady);
  assert.is(await sql(project, 'SELECT n FROM kept'), '42');
  assert.is((await bed.server(project)).id, id);
  assert.is(bed.count(CREATE, project), 1);
  await removed(project);
});

test('a removal whose operators are killed again and again keeps the wanted snapshot, and no machine', async () => {
  const project = { ...(await bed.project('leaving')), retain: true };
  await killedAt(project, isReady);
  for (const delayMs of [0, 200, 700, 1_500, 3_000]) {
    const { state } = await killedAt(project, () => true, { delayMs, work: 'remove' });
    if (state === 'ready') break;
  }
  await killedAt(project, isReady, { work: 'remove' });
  const left = await bed.left(project);
  assert.is(left.length, 1, 'a snapshot alone');
  assert.is((await bed.servers(project)).length, 0);
  assert.is(await bed.record(project), undefined);
});

kills.run();

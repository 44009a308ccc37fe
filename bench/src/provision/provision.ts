/**
 * Benchmark of provisioning: the time from POST /projects to healthy, one at a time and all at once, beside a bare
 * CREATE DATABASE on the same Postgres; the same for sites; and the memory of the idle platform with no and with many
 * projects.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { TEMPLATE_PREFIX } from '@slipway/project-database';
import { Client } from 'pg';
import type { Bench, BenchContext } from '../bench.js';
import { cpuSeconds, memoryMiB } from '../measure/processes.js';
import { median, percentile } from '../measure/rounds.js';
import { Platform } from '../platform.js';
import { decimals, whole } from '../report/table.js';

const ONE_BY_ONE = 20;
const AT_ONCE = 20;
const MANY = 200;
const MANY_AT_ONCE = 8;
const POLL_MS_OF_MANY = 50;
const P50_SECONDS = 0.25;
const SITE_P50_SECONDS = 0.1;
const TIMES_CREATE_DATABASE = 3;
const AT_ONCE_P95_SECONDS = 4;

export const provision: Bench = async (context) => {
  context.say('starting a platform');
  const platform = await Platform.start();
  try {
    return await measure(platform, context);
  } finally {
    await platform.close();
  }
};

async function measure(platform: Platform, { say }: BenchContext) {
  await untilIdle(platform);
  const empty = await memory(platform);
  say(`${ONE_BY_ONE} projects one by one, each followed by a bare CREATE DATABASE`);
  const { projects, databases } = await oneByOne(platform);
  say(`${ONE_BY_ONE} sites one by one`);
  const sites: number[] = [];
  for (let round = 0; round < ONE_BY_ONE; round++)
    sites.push(await seconds(() => platform.createProject(undefined, 'frontend')));
  say(`${AT_ONCE} projects at once`);
  const atOnce = await Promise.all(
    Array.from({ length: AT_ONCE }, () => seconds(() => platform.createProject(POLL_MS_OF_MANY))),
  );
  say(`up to ${MANY} projects, then until the platform is idle`);
  await createMany(platform, MANY - 2 * ONE_BY_ONE - AT_ONCE);
  await untilIdle(platform);
  const full = await memory(platform);
  const targets = [
    { what: 'provisioning: p50, s', value: median(projects), target: P50_SECONDS },
    { what: 'provisioning of a site: p50, s', value: median(sites), target: SITE_P50_SECONDS },
    {
      what: 'provisioning: p50 ÷ CREATE DATABASE',
      value: median(projects) / median(databases),
      target: TIMES_CREATE_DATABASE,
    },
    {
      what: `provisioning: p95 of ${AT_ONCE} at once, s`,
      value: percentile(atOnce, 0.95),
      target: AT_ONCE_P95_SECONDS,
    },
  ].map((target) => ({ ...target, bound: 'at most' as const }));
  const row = (name: string, values: number[]) => [
    name,
    ...[0.5, 0.95, 1].map((share) => decimals(percentile(values, share) * 1000, 0)),
  ];
  const times = {
    title: 'Provisioning',
    head: ['what', 'p50 ms', 'p95 ms', 'longest ms'],
    rows: [
      row(`POST /projects to healthy, ${ONE_BY_ONE} one by one`, projects),
      row('CREATE DATABASE … TEMPLATE', databases),
      row(`POST /projects to a healthy site, ${ONE_BY_ONE} one by one`, sites),
      row(`POST /projects to healthy, ${AT_ONCE} at once`, atOnce),
    ],
  };
  const memories = {
    title: 'Memory of the idle platform (PSS, MiB)',
    head: ['program', '0 projects', `${MANY} projects`],
    rows: Object.keys(full).map((name) => [name, whole(empty[name] ?? 0), whole(full[name] ?? 0)]),
  };
  return {
    tables: [times, memories],
    targets,
    skipped: [],
    data: { projects, databases, sites, atOnce, memory: { empty, full } },
  };
}

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const begin = performance.now();
  await work();
  return (performance.now() - begin) / 1000;
}

async function oneByOne(platform: Platform) {
  const projects: number[] = [];
  const databases: number[] = [];
  const admin = new Client(await platform.running.admin());
  await admin.connect();
  try {
    const template = await templateDatabase(admin);
    for (let round = 0; round < ONE_BY_ONE; round++) {
      projects.push(await seconds(() => platform.createProject()));
      databases.push(await seconds(() => admin.query(`create database "bench-${round}" template "${template}"`)));
      await admin.query(`drop database "bench-${round}"`);
    }
  } finally {
    await admin.end();
  }
  return { projects, databases };
}

/** Returns the template database that projects' databases are copied from. */
async function templateDatabase(admin: Client): Promise<string> {
  const { rows } = await admin.query('select datname from pg_database where datname like $1', [`${TEMPLATE_PREFIX}%`]);
  if (rows.length !== 1) throw new Error(`${rows.length} databases are called ${TEMPLATE_PREFIX}…`);
  return rows[0].datname;
}

async function createMany(platform: Platform, count: number): Promise<void> {
  let left = count;
  const worker = async () => {
    while (left-- > 0) await platform.createProject(POLL_MS_OF_MANY);
  };
  await Promise.all(Array.from({ length: MANY_AT_ONCE }, worker));
}

const IDLE_WINDOW_MS = 3000;
const IDLE_SHARE = 0.05;
const IDLE_TIMEOUT_MS = 60_000;

/** Waits until the platform's processes together use less than a twentieth of a core. */
async function untilIdle(platform: Platform): Promise<void> {
  const deadline = Date.now() + IDLE_TIMEOUT_MS;
  for (let before = await cpuSeconds(platform.running.pid); Date.now() < deadline; ) {
    await sleep(IDLE_WINDOW_MS);
    const after = await cpuSeconds(platform.running.pid);
    if (((after - before) * 1000) / IDLE_WINDOW_MS < IDLE_SHARE) return;
    before = after;
  }
}

async function memory(platform: Platform): Promise<Record<string, number>> {
  const sizes: Record<string, number> = {};
  for (const [name, pid] of Object.entries(await platform.programs())) sizes[name] = await memoryMiB(pid);
  const all = await memoryMiB(platform.running.pid);
  const sum = Object.values(sizes).reduce((total, size) => total + size, 0);
  return { ...sizes, supervisor: all - sum, 'all together': all };
}

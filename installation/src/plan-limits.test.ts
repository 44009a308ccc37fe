/** Compares the table of docs/limits.md with the limits by plan. */
import { readFileSync } from 'node:fs';
import { PLANS, type Plan } from '@slipway/crds';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import * as planLimits from './plan-limits.js';

/** Limits by plan, by the name of their export. */
const limits = { ...planLimits };

const page = readFileSync(new URL('../../docs/limits.md', import.meta.url), 'utf8');

/** Returns the values of a row of the table, by plan. */
function shown(limit: string): string[] {
  const row = page.split('\n').find((line) => line.startsWith(`| ${limit} |`));
  assert.ok(row, `docs/limits.md has no row "${limit}"`);
  return row.split(' | ').slice(1, 1 + PLANS.length);
}

const byPlan = (value: (plan: Plan) => string) => PLANS.map(value);
const decimal = (bytes: number) => (bytes % 1e9 === 0 ? `${bytes / 1e9} GB` : `${bytes / 1e6} MB`);
const binary = (bytes: number) => (bytes % 2 ** 20 === 0 ? `${bytes / 2 ** 20} MiB` : `${bytes / 2 ** 10} KiB`);
const count = (value: number) => value.toLocaleString('en-US');

const minutes = (milliseconds: number) => `${milliseconds / 60_000} min`;
const hours = (milliseconds: number) => `${milliseconds / 3_600_000} h`;
const binaryOrGib = (bytes: number) => (bytes % 2 ** 30 === 0 ? `${bytes / 2 ** 30} GiB` : binary(bytes));

type Row = [row: string, format: (value: number) => string];

/** Rows of the table that have one number. */
const NUMBERS = {
  DATABASE_BYTES: ['database of a project, on a shared Postgres', decimal],
  WAL_BYTES_A_MINUTE: ['write-ahead log of an account in a minute', decimal],
  STORAGE_BYTES: ['files of a project', decimal],
  SITE_BYTES: ['disk of a site', binaryOrGib],
} satisfies Record<string, Row>;

/** Rows of the table that have several numbers, by their members. */
const GROUPS = {
  BUILD_LIMITS: {
    milliseconds: ['a build: time', minutes],
    memoryBytes: ['a build: memory of all its processes', binaryOrGib],
    processes: ['a build: processes', count],
    diskBytes: ['a build: files', binaryOrGib],
    logBytes: ['a build: log', binary],
  } satisfies Record<keyof planLimits.BuildLimits, Row>,
  APP_LIMITS: {
    memoryBytes: ['an app: memory', binaryOrGib],
    processors: ['an app: processors', count],
    processes: ['an app: processes', count],
    diskBytes: ['an app: images, layers and files', binaryOrGib],
    logBytes: ['an app: log', binary],
  } satisfies Record<keyof planLimits.AppLimits, Row>,
  ACCOUNT_BUILD_LIMITS: {
    atOnce: ['builds of an account: at once', count],
    millisecondsADay: ['builds of an account: time in a day (UTC)', hours],
  } satisfies Record<keyof planLimits.AccountBuildLimits, Row>,
  DEPLOYMENT_LIMITS: {
    files: ['a deployment: files and folders', count],
    fileBytes: ['a deployment: a file', binary],
    totalBytes: ['a deployment: all files', binaryOrGib],
  } satisfies Record<keyof planLimits.DeploymentLimits, Row>,
  PREVIEW_LIMITS: {
    previews: ['previews of a project', count],
    totalBytes: ['previews of a project: all files', binaryOrGib],
  } satisfies Record<keyof planLimits.PreviewLimits, Row>,
  REALTIME_LIMITS: {
    connections: ['realtime: connections', count],
    channelsPerConnection: ['realtime: channels on a connection', count],
    joinsPerSecond: ['realtime: joins a second', count],
    eventsPerSecond: ['realtime: broadcasts a second', count],
    presenceEventsPerSecond: ['realtime: presence events a second', count],
    payloadBytes: ['realtime: payload of a message', binary],
    heldBytes: ['realtime: joins and presences of all channels', binary],
    presenceBytes: ['realtime: presences of a topic', binary],
    recordBytes: ['realtime: record of a changed row', binary],
  } satisfies Record<keyof planLimits.RealtimeLimits, Row>,
};

test('every limit of plan-limits.ts is compared with docs/limits.md', () => {
  assert.equal(Object.keys(limits).sort(), Object.keys({ ...NUMBERS, ...GROUPS }).sort());
});

for (const [name, [row, format]] of Object.entries(NUMBERS)) {
  test(`docs/limits.md has the limit ${name} of each plan`, () => {
    const values = limits[name as keyof typeof NUMBERS];
    assert.equal(
      shown(row),
      byPlan((plan) => format(values[plan])),
    );
  });
}

for (const [name, rows] of Object.entries(GROUPS)) {
  const values = limits[name as keyof typeof GROUPS] as Record<Plan, object>;
  for (const [member, [row, format]] of Object.entries<Row>(rows)) {
    test(`docs/limits.md has ${member} of ${name} of each plan`, () => {
      assert.equal(
        shown(row),
        byPlan((plan) => format(values[plan][member as keyof object])),
      );
    });
  }
}

test.run();

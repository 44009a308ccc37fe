/**
 * The processes to kill, how to kill them, and which requests may fail until each is restored. No other request may
 * fail. The table in docs/operations.md is generated from this list. Called by the soak.
 */
import { readFile, realpath } from 'node:fs/promises';
import path from 'node:path';
import { until } from '@slipway/testing';
import type { RunningPlatform } from '../platform.js';
import { commandOf, processTree } from '../processes.js';
import { oneOf } from '../random.js';
import type { App } from './app.js';
import type { Calls } from './calls.js';
import type { MayFail } from './outages.js';
import { type Failure, KINDS, type Kind } from './requests.js';

export interface Stage {
  platform: RunningPlatform;
  apps: readonly App[];
  calls: Calls;
  random: () => number;
  /** Starts the platform again, like a person who notices its end. */
  startAgain(): Promise<void>;
}

export interface Victim {
  /** The title in the documentation. */
  title: string;
  mayFail: MayFail;
  /** `stay` if realtime's sockets and subscriptions survive. */
  sockets: 'stay' | 'end';
  /** The documentation's text about what restarts it. */
  backBy: string;
  find(stage: Stage): Promise<Target>;
}

export interface Target {
  pid: number;
  /** The only project whose requests may fail. */
  ref?: string;
  /** Resolves once a replacement exists. */
  replaced(): Promise<unknown>;
}

const ALL_GONE: readonly Failure[] = ['no connection', 502, 503];
/** Failures of requests that need a row while the database is unavailable: a broken connection, or no connection. */
const DATABASE_GONE: MayFail = {
  REST: [503],
  auth: [503],
  storage: [502],
  'management API': [503],
  MCP: [503],
  // For a write in progress at the kill, the outcome is unknown.
  'Kubernetes API': [500, 503],
};
const BEHIND_THE_PORT: MayFail = Object.fromEntries(
  KINDS.filter((kind) => kind !== 'Kubernetes API').map((kind) => [kind, ALL_GONE]),
);

export const VICTIMS: readonly Victim[] = [
  program('operator', 'the operator', {}),
  program('api', 'the API', { 'management API': [502], MCP: [502] }),
  program('apiserver', 'the API server', {
    'management API': [503],
    MCP: [503],
    'Kubernetes API': ['no connection'],
  }),
  {
    title: 'a function’s isolate',
    mayFail: { functions: [500, 503] },
    sockets: 'stay',
    backBy: 'the next call',
    find: async ({ apps, calls, random }) => {
      const app = oneOf(random, apps);
      const pid = await calls.isolateOf(app);
      const isAnother = () =>
        calls.isolateOf(app).then(
          (found) => found !== pid || undefined,
          () => undefined,
        );
      return { pid, ref: app.ref, replaced: () => until(isAnother, 'another isolate') };
    },
  },
  {
    title: 'a connection’s process of Postgres',
    mayFail: DATABASE_GONE,
    sockets: 'stay',
    backBy: 'Postgres, which ends all others too and recovers',
    find: async (stage) => {
      const { platform, random } = stage;
      const backends = async () => {
        const tree = await processTree(await postmasterOf(platform));
        const commands = await Promise.all(tree.map(async (pid) => ({ pid, command: await commandOf(pid) })));
        const found = commands.filter(({ command }) => /^postgres: (authenticator|auth_admin)\./.test(command));
        return found.length > 0 ? found : undefined;
      };
      const { pid } = oneOf(random, await until(backends, 'a connection of a project'));
      return { pid, replaced: async () => {} };
    },
  },
  {
    title: 'Postgres',
    mayFail: DATABASE_GONE,
    sockets: 'stay',
    backBy: '`npm start`, and Postgres recovers',
    find: async ({ platform }) => {
      const pid = await postmasterOf(platform);
      const isAnother = () =>
        postmasterOf(platform).then(
          (found) => found !== pid || undefined,
          () => undefined,
        );
      return { pid, replaced: () => until(isAnother, 'another Postgres') };
    },
  },
  { ...program('dataplane', 'the data plane', BEHIND_THE_PORT), sockets: 'end' },
  {
    title: '`npm start` itself',
    mayFail: { ...BEHIND_THE_PORT, 'Kubernetes API': ALL_GONE },
    sockets: 'end',
    backBy: 'you: `npm start` again',
    find: async ({ platform, startAgain }) => ({ pid: platform.pid, replaced: startAgain }),
  },
];

function program(name: string, title: string, mayFail: MayFail): Victim {
  return {
    title,
    mayFail,
    sockets: 'stay',
    backBy: '`npm start`',
    find: async ({ platform }) => {
      const pid = await until(() => processOf(platform, name), `the process of ${name}`);
      const isAnother = async () => {
        const found = await processOf(platform, name);
        return (found !== undefined && found !== pid) || undefined;
      };
      return { pid, replaced: () => until(isAnother, `another process of ${name}`) };
    },
  };
}

async function processOf(platform: RunningPlatform, name: string): Promise<number | undefined> {
  const tree = await processTree(platform.pid);
  const commands = await Promise.all(tree.map(commandOf));
  return tree[commands.findIndex((command) => command.includes(`/${name}/dist/main.js`))];
}

async function postmasterOf({ home }: RunningPlatform): Promise<number> {
  const file = path.join(await realpath(path.join(home, 'postgres')), 'postmaster.pid');
  return Number((await readFile(file, 'utf8')).split('\n')[0]);
}

/** Returns the table for docs/operations.md. */
export function documented(): string {
  const rows = VICTIMS.map(({ title, mayFail, sockets, backBy }) => {
    const goesOn = KINDS.filter((kind) => !mayFail[kind]);
    const staying = sockets === 'stay' ? 'stay' : 'close; clients come again';
    return [title, goesOn.length === KINDS.length ? 'all' : goesOn.join(', '), failing(mayFail), staying, backBy];
  });
  const lines = [
    ['killed', 'works without a failed request', 'fails until it is back', 'realtime’s sockets', 'brought back by'],
    Array(5).fill('---'),
    ...rows,
  ];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** Groups the kinds that fail in the same way. */
function failing(mayFail: MayFail): string {
  const byHow = new Map<string, Kind[]>();
  for (const kind of KINDS) {
    const how = mayFail[kind]?.join(', ');
    if (how) byHow.set(how, [...(byHow.get(how) ?? []), kind]);
  }
  return [...byHow].map(([how, kinds]) => `${kinds.join(', ')}: ${how}`).join('; ');
}

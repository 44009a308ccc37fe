/**
 * The processes to kill, which requests may fail until each is back, and how: no other request fails. The table in
 * docs/operations.md is made of this. Called by the soak.
 */
import { readFile, realpath } from 'node:fs/promises';
import path from 'node:path';
import type { RunningPlatform } from '../platform.js';
import { commandOf, processTree } from '../processes.js';
import { oneOf } from '../random.js';
import { until } from '../until.js';
import type { App } from './app.js';
import type { Calls } from './calls.js';
import type { MayFail } from './outages.js';
import { type Failure, KINDS, type Kind } from './requests.js';

export interface Stage {
  platform: RunningPlatform;
  apps: readonly App[];
  calls: Calls;
  random: () => number;
  /** Starts it again, as a person does who finds that it ended. */
  startAgain(): Promise<void>;
}

export interface Victim {
  /** In the documentation. */
  title: string;
  mayFail: MayFail;
  /** Whether realtime's sockets and subscriptions outlive it. */
  sockets: 'stay' | 'end';
  /** In the documentation: who brings it back. */
  backBy: string;
  find(stage: Stage): Promise<Target>;
}

export interface Target {
  pid: number;
  /** The only project whose requests may fail. */
  ref?: string;
  /** Resolves once something is there in its place. */
  replaced(): Promise<unknown>;
}

const ALL_GONE: readonly Failure[] = ['no connection', 502, 503];
/** Failures of requests that need a row while the database is unavailable: a broken connection, or none. */
const DATABASE_GONE: MayFail = {
  REST: [503],
  auth: [503],
  storage: [502],
  'management API': [503],
  MCP: [503],
  // A write that was under way when it went: nobody knows whether it was done.
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
      return { pid, ref: app.ref, replaced: () => until('another isolate', isAnother) };
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
      const { pid } = oneOf(random, await until('a connection of a project', backends));
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
      return { pid, replaced: () => until('another Postgres', isAnother) };
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
      const pid = await until(`the process of ${name}`, () => processOf(platform, name));
      const isAnother = async () => {
        const found = await processOf(platform, name);
        return (found !== undefined && found !== pid) || undefined;
      };
      return { pid, replaced: () => until(`another process of ${name}`, isAnother) };
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

/** The table of docs/operations.md. */
export function documented(): string {
  const rows = VICTIMS.map(({ title, mayFail, sockets, backBy }) => {
    const goesOn = KINDS.filter((kind) => !mayFail[kind]);
    const staying = sockets === 'stay' ? 'stay' : 'close; clients come again';
    return [title, goesOn.length === KINDS.length ? 'all' : goesOn.join(', '), failing(mayFail), staying, backBy];
  });
  const lines = [
    ['killed', 'goes on without a failed request', 'fails until it is back', 'realtime’s sockets', 'brought back by'],
    Array(5).fill('---'),
    ...rows,
  ];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** Kinds that fail in the same way stand together. */
function failing(mayFail: MayFail): string {
  const byHow = new Map<string, Kind[]>();
  for (const kind of KINDS) {
    const how = mayFail[kind]?.join(', ');
    if (how) byHow.set(how, [...(byHow.get(how) ?? []), kind]);
  }
  return [...byHow].map(([how, kinds]) => `${kinds.join(', ')}: ${how}`).join('; ');
}

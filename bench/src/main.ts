/**
 * `node bench/dist/main.js [name …] [--rounds=5] [--seconds=3] [--only=part] [--before=folder]`: runs the named
 * benches, or all, one after another; prints tables and writes JSON. A run of one part (`--only=insert`) prints its
 * table and writes no JSON.
 */
import { parseArgs } from 'node:util';
import { installPeers } from '@slipway/e2e/peers.js';
import { apps } from './apps/apps.js';
import { authRefresh } from './auth/auth-refresh.js';
import type { Bench, BenchContext } from './bench.js';
import { cluster } from './cluster/cluster.js';
import { functions } from './functions/functions.js';
import { machines } from './machines/machines.js';
import { describeMachine } from './measure/machine.js';
import { provision } from './provision/provision.js';
import { realtime } from './realtime/realtime.js';
import { reconcile } from './reconcile/reconcile.js';
import { releases } from './releases/releases.js';
import { render, writeResult } from './report/results.js';
import { timeLeft } from './report/time-left.js';
import { liteDrivers } from './rest/lite-drivers.js';
import { rest } from './rest/rest.js';
import { sites } from './sites/sites.js';
import { storage } from './storage/storage.js';

const BENCHES: Record<string, Bench> = {
  rest,
  'auth-refresh': authRefresh,
  provision,
  reconcile,
  realtime,
  functions,
  storage,
  sites,
  apps,
  machines,
  cluster,
  releases,
  'lite-drivers': liteDrivers,
};
/**
 * Names of the benches that run if none is named. Of the others, one needs a cluster, one needs another checkout, and
 * one answers a question that needs no second run.
 */
const USUAL = ['rest', 'auth-refresh', 'provision', 'reconcile', 'realtime', 'functions', 'storage', 'sites', 'apps'];

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    only: { type: 'string' },
    before: { type: 'string' },
  },
});
const names = positionals.length > 0 ? positionals : USUAL;

const context: BenchContext = {
  plan: {
    connections: 32,
    rounds: atLeastOne('rounds', options.rounds ?? '5'),
    seconds: atLeastOne('seconds', options.seconds ?? '3'),
    // By then V8 has compiled a request's path. Servers whose pool size was tried have already run for as long.
    warmUpSeconds: 8,
  },
  only: options.only,
  before: options.before,
  environment: process.env,
  kubeconfig: process.env.KUBECONFIG || undefined,
  say: (text) => process.stderr.write(`  ${text}\n`),
};

const unknown = names.filter((name) => !BENCHES[name]);
if (unknown.length > 0) {
  refuse(`no bench is called ${unknown.join(', ')}; there are: ${Object.keys(BENCHES).join(', ')}`);
}
await installPeers();
const firstBegin = performance.now();
for (const [done, name] of names.entries()) {
  const rest = done > 0 ? `, ${timeLeft(done, names.length, performance.now() - firstBegin)} left` : '';
  process.stderr.write(`${name} (${done + 1} of ${names.length}${rest})\n`);
  const begin = performance.now();
  const result = await (BENCHES[name] as Bench)(context);
  process.stdout.write(`\n${render(result)}\n\n`);
  const seconds = ((performance.now() - begin) / 1000).toFixed(0);
  if (options.only !== undefined) process.stderr.write(`✓ ${options.only} of ${name} (${seconds} s), not written\n`);
  else {
    const file = await writeResult(name, describeMachine(), context.plan, result);
    process.stderr.write(`✓ ${name} (${seconds} s), in ${file}\n`);
  }
}

function atLeastOne(name: string, text: string): number {
  const value = Number(text);
  return Number.isInteger(value) && value >= 1
    ? value
    : refuse(`--${name} must be a whole number of at least 1, not ${text}`);
}

function refuse(why: string): never {
  process.stderr.write(`${why}\n`);
  process.exit(2);
}

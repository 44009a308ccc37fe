/** `node bench/dist/main.js [name …]`: runs the benches that are named, or all, one after another; prints tables and writes JSON. */
import { authRefresh } from './auth/auth-refresh.js';
import type { Bench, BenchContext } from './bench.js';
import { describeMachine } from './measure/machine.js';
import { provision } from './provision/provision.js';
import { reconcile } from './reconcile/reconcile.js';
import { render, writeResult } from './report/results.js';
import { liteDrivers } from './rest/lite-drivers.js';
import { rest } from './rest/rest.js';

const BENCHES: Record<string, Bench> = {
  rest,
  'auth-refresh': authRefresh,
  provision,
  reconcile,
  'lite-drivers': liteDrivers,
};
/** Run when no name is given: the others answer a question that is answered once. */
const USUAL = ['rest', 'auth-refresh', 'provision', 'reconcile'];

const context: BenchContext = {
  plan: { connections: 32, rounds: 5, seconds: 3, warmUpSeconds: 2 },
  environment: process.env,
  kubeconfig: process.env.KUBECONFIG || undefined,
  say: (text) => process.stderr.write(`  ${text}\n`),
};

const names = process.argv.length > 2 ? process.argv.slice(2) : USUAL;
const unknown = names.filter((name) => !BENCHES[name]);
if (unknown.length > 0) {
  process.stderr.write(`no bench is called ${unknown.join(', ')}; there are: ${Object.keys(BENCHES).join(', ')}\n`);
  process.exit(2);
}
for (const name of names) {
  process.stderr.write(`${name}\n`);
  const begin = performance.now();
  const result = await (BENCHES[name] as Bench)(context);
  const file = await writeResult(name, describeMachine(), context.plan, result);
  process.stdout.write(`\n${render(result)}\n\n`);
  process.stderr.write(`✓ ${name} (${((performance.now() - begin) / 1000).toFixed(0)} s), in ${file}\n`);
}

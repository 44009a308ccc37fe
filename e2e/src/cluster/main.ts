/**
 * `node e2e/dist/cluster/main.js [--any]`: finds a cluster, tells of it as a line of JSON, and leaves it when standard
 * input ends. With --any that may be the one which KUBECONFIG names, or kind's. Run by scripts/test.mjs, which works on
 * a Node too old for the rest.
 */
import { once } from 'node:events';
import { findCluster } from './find.js';

const { SLIPWAY_E2E_KUBECONFIG, KUBECONFIG } = process.env;
const any = process.argv.includes('--any');
const begin = Date.now();

const found = await findCluster({
  given: SLIPWAY_E2E_KUBECONFIG || (any && KUBECONFIG) || undefined,
  kind: any,
  say: (text) => process.stderr.write(`  # ${text}\n`),
});
if (!('kubeconfig' in found)) process.stdout.write(`${JSON.stringify(found)}\n`);
else {
  const { name, kubeconfig, overlay } = found;
  const seconds = Math.round((Date.now() - begin) / 1000);
  process.stdout.write(`${JSON.stringify({ name, kubeconfig, overlay, seconds })}\n`);
  process.stdin.resume();
  await once(process.stdin, 'end');
  await found.close();
}

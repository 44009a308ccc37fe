/**
 * `node e2e/dist/cluster/main.js [--any]`: finds a cluster, prints a line of JSON about it, and releases it when
 * standard input ends. It accepts commands as lines: `images` loads the platform's images, `install` installs Slipway,
 * `logs` reads the end of its programs' logs, and `uninstall` removes it. It prints a line after each command. With
 * --any the cluster may be the one of KUBECONFIG, or kind's. The test runner starts this program, because the Node of
 * the test runner may be too old for the rest.
 */
import { createInterface } from 'node:readline';
import { findCluster, ROOT } from './find.js';
import { describeInstallation, type Installation, install } from './installation.js';

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
  let installation: Installation | undefined;
  try {
    for await (const command of createInterface({ input: process.stdin })) {
      const since = Date.now();
      if (command === 'images') await found.loadImages();
      if (command === 'install') installation = await install(ROOT, kubeconfig, overlay);
      if (command === 'uninstall') {
        await installation?.close();
        installation = undefined;
      }
      const logs = command === 'logs' ? await describeInstallation(kubeconfig) : undefined;
      const seconds = Math.round((Date.now() - since) / 1000);
      process.stdout.write(`${JSON.stringify({ done: command, logs, seconds })}\n`);
    }
    await installation?.close();
  } finally {
    await found.close();
  }
}

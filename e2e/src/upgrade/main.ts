/**
 * `npm run fixture -- <release>`: writes the state of an upgrade's test with this release into e2e/fixtures/<release>.
 * With --cluster on the test cluster, else on this machine. --from names another checkout, built, whose programs write
 * it.
 */
import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { ROOT } from '../cluster/find.js';
import { startOnCluster } from '../cluster/platform.js';
import { useTestCluster } from '../cluster/test-cluster.js';
import { newPlace, startPlatform } from '../platform.js';
import { packCluster } from './cluster-archive.js';
import { type Fixture, fixtureOf, writeStateFile } from './fixtures.js';
import { packHome } from './home-archive.js';
import { ENVIRONMENT, writeState } from './written-state.js';

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { cluster: { type: 'boolean', default: false }, from: { type: 'string', default: ROOT } },
});
const [release = ''] = positionals;
if (!/^[0-9a-z][0-9a-z.-]*$/.test(release)) {
  console.error('usage: npm run fixture -- <release> [--cluster] [--from=<checkout>], such as 0.2.0');
  process.exit(2);
}

const fixture = fixtureOf(release, values.cluster ? 'cluster' : 'home');
await mkdir(path.dirname(fixture.archive), { recursive: true });
await (values.cluster ? writeCluster(fixture, values.from) : writeHome(fixture, values.from));
console.log(fixture.archive);
// The channel to the platform's process stays open.
process.exit(0);

async function writeHome(fixture: Fixture, checkout: string): Promise<void> {
  const place = await newPlace();
  const platform = await startPlatform(place, ENVIRONMENT, path.join(checkout, 'slipway/dist/main.js'));
  try {
    await writeStateFile(fixture, await writeState(platform));
    await platform.stop();
    await packHome(fixture.archive, place.home);
  } finally {
    await platform.kill();
    await rm(place.home, { recursive: true, force: true });
  }
}

async function writeCluster(fixture: Fixture, checkout: string): Promise<void> {
  const cluster = await useTestCluster(checkout, console.error);
  try {
    const platform = await startOnCluster(cluster.kubeconfig, cluster.overlay, checkout);
    await writeStateFile(fixture, await writeState(platform));
    await packCluster(fixture.archive, cluster.kubeconfig);
  } finally {
    await cluster.close();
  }
}

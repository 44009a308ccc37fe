/**
 * Writes the state for the upgrade test of this release into e2e/fixtures/<release> (`npm run fixture -- <release>`).
 * With --cluster it runs on the test cluster, otherwise on this machine. --from names another checkout, already built,
 * whose programs write the state.
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
import { startRepositories } from './written-site.js';
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
// The channel to the platform's process would keep this process running.
process.exit(0);

async function writeHome(fixture: Fixture, checkout: string): Promise<void> {
  const place = await newPlace();
  const repositories = await startRepositories();
  const environment = { ...ENVIRONMENT, ...repositories.environment };
  const platform = await startPlatform(place, environment, path.join(checkout, 'slipway/dist/main.js'));
  try {
    await writeStateFile(fixture, await writeState(platform, repositories.url));
    await platform.stop();
    await packHome(fixture.archive, place.home);
  } finally {
    await platform.kill();
    repositories.close();
    await rm(place.home, { recursive: true, force: true });
  }
}

async function writeCluster(fixture: Fixture, checkout: string): Promise<void> {
  const cluster = await useTestCluster(checkout, console.error);
  try {
    await cluster.loadImages();
    const platform = await startOnCluster(cluster.kubeconfig, cluster.overlay, checkout);
    await writeStateFile(fixture, await writeState(platform));
    await packCluster(fixture.archive, cluster.kubeconfig);
  } finally {
    await cluster.close();
  }
}

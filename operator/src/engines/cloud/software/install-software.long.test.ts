/**
 * Tests the installation of the software on a real machine, of the server of the provider's API that
 * SLIPWAY_TEST_CLOUD_URL names.
 */
import path from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { installSoftware } from './install-software.js';
import { TestMachine } from './machine.testing.js';
import { ensurePack, type Pack } from './pack/pack.js';

const url = process.env.SLIPWAY_TEST_CLOUD_URL;
if (!url) console.log('# skipped: SLIPWAY_TEST_CLOUD_URL names no server of the cloud provider’s API');

const software = suite('the software of a machine');
const test = url ? software : software.skip;
const { signal } = new AbortController();
const RELEASE = '/opt/slipway/releases';
let machine: TestMachine;
let pack: Pack;

const seconds = (from: number) => ((performance.now() - from) / 1000).toFixed(1);

software.before(async () => {
  if (!url) return;
  machine = await TestMachine.create(url, ['22']);
  const begun = performance.now();
  pack = await ensurePack(path.join(machine.folder, 'packs'), signal);
  console.log(`# a pack of ${Math.round(pack.bytes / 1e6)} MB is made in ${seconds(begun)} s`);
});
software.after(() => machine?.delete());

test('the programs run where links name them when the software is installed', async () => {
  const begun = performance.now();
  await installSoftware(machine.ssh, pack, signal);
  console.log(`# the software is installed in ${seconds(begun)} s`);
  const versions = await machine.sh(`cd /opt/slipway/current
    bin/node --version; bin/deno --version; postgres/bin/postgres --version
    cd dataplane && ../bin/node -e "import('./dist/index.js').then((all) => console.log(Object.keys(all).join()))"`);
  assert.match(versions, /^v24\.[\s\S]*deno 2\.[\s\S]*PostgreSQL\) 18\./);
  assert.is(
    await machine.sh('ls -A /opt/slipway /opt/slipway/releases'),
    ['/opt/slipway:', 'current', 'releases', '', `${RELEASE}:`, pack.id].join('\n'),
  );
  assert.is(await machine.sh('find /opt/slipway ! -user root -o -perm /022 ! -type l'), '');
});

test('an installed release is neither uploaded nor replaced by a second installation', async () => {
  const inode = await machine.sh(`stat -c %i ${RELEASE}/${pack.id}/bin`);
  const begun = performance.now();
  await installSoftware(machine.ssh, { ...pack, file: '/nonexistent' }, signal);
  console.log(`# an installed release is verified in ${seconds(begun)} s`);
  assert.is(await machine.sh(`stat -c %i ${RELEASE}/${pack.id}/bin`), inode);
});

test('a damaged release is replaced', async () => {
  await machine.sh(
    `echo more >> ${RELEASE}/${pack.id}/package-of-nobody; echo '#' >> ${RELEASE}/${pack.id}/dataplane/dist/index.js`,
  );
  await installSoftware(machine.ssh, pack, signal);
  assert.is(
    await machine.sh(`cd ${RELEASE}/${pack.id} && sha256sum --check --quiet SHA256SUMS; ls ${RELEASE}`),
    pack.id,
  );
});

test('an installation continues when it was cut in the upload, the unpacking or the switch', async () => {
  const release = `${RELEASE}/${pack.id}`;
  for (const cut of [
    `mkdir -p /opt/slipway/incoming; mv ${release} ${release}.partial; echo half > /opt/slipway/incoming/x.part`,
    `mv ${release} ${release}.damaged; rm /opt/slipway/current`,
    `rm /opt/slipway/current; ln -s nowhere /opt/slipway/.current.new`,
  ]) {
    await machine.sh(cut);
    await installSoftware(machine.ssh, pack, signal);
    assert.is(
      await machine.sh(`readlink /opt/slipway/current; ls ${RELEASE}; ls -A /opt/slipway`),
      [`releases/${pack.id}`, pack.id, 'current', 'releases'].join('\n'),
    );
  }
});

test('the former release stays and older ones are deleted when a release follows', async () => {
  for (const old of ['old', 'older']) await machine.sh(`mkdir ${RELEASE}/${old}`);
  await machine.sh('ln -sfn releases/old /opt/slipway/current');
  await installSoftware(machine.ssh, pack, signal);
  assert.is(
    await machine.sh(`readlink /opt/slipway/current /opt/slipway/former; ls ${RELEASE}`),
    [`releases/${pack.id}`, 'releases/old', pack.id, 'old'].join('\n'),
  );
});

test('nothing is switched when an archive does not contain what its release promises', async () => {
  const wrong = { ...pack, id: 'wrong', manifestSha256: '0'.repeat(64) };
  const error = await installSoftware(machine.ssh, wrong, signal).catch((reason) => reason);
  assert.match(error.message, 'differ from their list of checksums');
  assert.is(await machine.sh(`readlink /opt/slipway/current; ls ${RELEASE}`), `releases/${pack.id}\n${pack.id}\nold`);
});

software.run();

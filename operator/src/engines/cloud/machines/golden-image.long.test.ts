/** Tests the snapshot for new machines against the server of the provider's API that SLIPWAY_TEST_CLOUD_URL names. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { hetznerProvider } from '../hetzner/provider.js';
import type { MachineProvider } from '../provider.js';
import { TestMachine } from '../software/machine.testing.js';
import { ensurePack, type Pack } from '../software/pack/pack.js';
import { GoldenImage } from './golden-image.js';
import { goldenLabels, labelsOfInstallation } from './labels.js';

const url = process.env.SLIPWAY_TEST_CLOUD_URL;
if (!url) console.log('# skipped: SLIPWAY_TEST_CLOUD_URL names no server of the cloud provider’s API');

const golden = suite('the snapshot for new machines');
const test = url ? golden : golden.skip;
const { signal } = new AbortController();
const installation = `g${process.pid}`;
const MADE_MS = 300_000;
const folder = mkdtempSync(path.join(tmpdir(), 'slipway-golden-'));
let provider: MachineProvider;
let pack: Pack;
let image: GoldenImage;

golden.before(async () => {
  if (!url) return;
  const tokenFile = path.join(folder, 'token');
  writeFileSync(tokenFile, 'any-token');
  provider = hetznerProvider({ url, tokenFile });
  pack = await ensurePack(path.join(folder, 'packs'), signal);
  image = imageOf();
});
golden.after(async () => {
  await image?.close();
  for (const { id } of (await provider?.listSnapshots(labelsOfInstallation(installation), signal)) ?? []) {
    await provider.deleteSnapshot(id, signal);
  }
  await provider?.delete(labelsOfInstallation(installation), signal);
  await provider?.deleteFirewall(await firewall(), signal);
  await provider?.close();
  rmSync(folder, { recursive: true, force: true });
});

const firewall = () =>
  provider.ensureFirewall(
    {
      name: installation,
      labels: labelsOfInstallation(installation),
      rules: [{ protocol: 'tcp', ports: '22', sources: ['0.0.0.0/0'] }],
    },
    signal,
  );

const imageOf = () =>
  new GoldenImage({
    provider,
    installation,
    baseImage: 'debian-12',
    choices: (region) => provider.choices(region, signal),
    firewall,
    pack: async () => pack,
    log: pino({ level: 'silent' }),
  });

test('a snapshot is made once, and its machine is deleted', async () => {
  assert.is(await image.id(signal), undefined);
  const begun = performance.now();
  image.begin('eu-central');
  image.begin('eu-central');
  const machines = () => provider.list(labelsOfInstallation(installation), signal);
  await until(async () => (await machines()).length === 1, 'a machine is made', MADE_MS);
  await until(async () => (await machines()).length === 0, 'it is deleted', MADE_MS);
  console.log(`# made in ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  const [only, ...others] = await provider.listSnapshots(goldenLabels(installation, pack.id), signal);
  assert.equal(others, []);
  assert.ok(only?.isComplete);
  await until(async () => (await imageOf().id(signal)) === only?.id, 'another process finds it');
});

test('a machine from the snapshot has the software, and nothing of the machine that made it', async () => {
  const id = (await imageOf().id(signal)) as string;
  const begun = performance.now();
  const machine = await TestMachine.create(url as string, ['22'], id);
  try {
    console.log(`# booted from it in ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    assert.is(await machine.sh('readlink /opt/slipway/current'), `releases/${pack.id}`);
    assert.is(
      await machine.sh('cd /opt/slipway/current && sha256sum --check --status SHA256SUMS && echo whole'),
      'whole',
    );
    assert.match(await machine.sh('dpkg-query --show nginx pgbouncer nftables'), 'pgbouncer');
    assert.is(await machine.sh('systemctl is-active nginx pgbouncer; exit 0'), 'inactive\ninactive');
    assert.is(await machine.sh('wc -l < /root/.ssh/authorized_keys'), '1');
    assert.is(await machine.sh('ls /etc/slipway /var/lib/slipway 2>/dev/null; exit 0'), '');
    assert.is(await machine.sh('ls /etc/ssh/slipway_host_ed25519_key 2>/dev/null; exit 0'), '');
    assert.match(await machine.sh('cat /etc/machine-id'), /^[0-9a-f]{32}$/);
  } finally {
    await machine.delete();
  }
});

test('two machines from the snapshot have different host keys and machine ids', async () => {
  const id = (await imageOf().id(signal)) as string;
  const seen: string[] = [];
  for (let round = 0; round < 2; round += 1) {
    const machine = await TestMachine.create(url as string, ['22'], id);
    try {
      seen.push(`${await machine.ssh.hostKey(signal)} ${await machine.sh('cat /etc/machine-id')}`);
    } finally {
      await machine.delete();
    }
  }
  const [one = '', another = ''] = seen;
  for (const [index, part] of one.split(' ').entries()) assert.is.not(part, another.split(' ')[index]);
});

test('the snapshot of another release is deleted once that of this one is there', async () => {
  const former = { ...pack, id: 'former' };
  const [only] = await provider.listSnapshots(goldenLabels(installation, pack.id), signal);
  pack = former;
  const next = imageOf();
  next.begin('eu-central');
  await until(
    async () => {
      const all = await provider.listSnapshots(labelsOfInstallation(installation), signal);
      return all.length === 1 && all[0]?.id !== only?.id;
    },
    'only the snapshot of the other release is left',
    MADE_MS,
  );
  await next.close();
});

golden.run();

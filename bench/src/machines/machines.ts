/**
 * Benchmark of dedicated projects: the time from POST /projects to healthy, from the provider's own image and from a
 * snapshot with the software, beside a bare machine of the same type at the same provider until it accepts SSH. The
 * difference is ours. SLIPWAY_TEST_CLOUD_URL names a server of the provider's API.
 */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { TestCloud } from '@slipway/e2e/test-cloud.js';
import type { Bench, BenchContext } from '../bench.js';
import { median } from '../measure/rounds.js';
import { Platform } from '../platform.js';
import { decimals } from '../report/table.js';

const ROUNDS = 3;
const FROM_BASE_SECONDS = 60;
const FROM_SNAPSHOT_SECONDS = 15;
const PATIENCE_MS = 600_000;
const POLL_MS = 100;
const AFTER_DELETION_MS = 5_000;

export const machines: Bench = async (context) => {
  if (!context.environment.SLIPWAY_TEST_CLOUD_URL) {
    return { tables: [], targets: [], skipped: ['machines: SLIPWAY_TEST_CLOUD_URL is not set'], data: {} };
  }
  const cloud = new TestCloud();
  try {
    return await measure(cloud, context);
  } finally {
    await cloud.close();
  }
};

async function measure(cloud: TestCloud, { say }: BenchContext) {
  const bare: number[] = [];
  say(`${ROUNDS} bare machines, until they accept SSH`);
  for (let round = 0; round < ROUNDS; round += 1) bare.push(await bareMachine(cloud, round));
  const boot = median(bare);
  const base = await withPlatform(cloud, 'off', (platform) => projects(platform, say, 'from the base image'));
  const snapshot = await withPlatform(cloud, 'on', async (platform) => {
    say('one machine, after which the snapshot is made');
    await platform.createProject(POLL_MS, 'dedicated', PATIENCE_MS);
    await untilSnapshot(cloud);
    return projects(platform, say, 'from the snapshot');
  });
  const [fromBase, fromSnapshot] = [base, snapshot].map((seconds) => median(seconds) - boot) as [number, number];
  const row = (what: string, seconds: number[]) => [
    what,
    decimals(Math.min(...seconds), 1),
    decimals(median(seconds), 1),
    decimals(Math.max(...seconds), 1),
  ];
  return {
    tables: [
      {
        title: 'Machines of dedicated projects',
        head: ['what', 'shortest s', 'p50 s', 'longest s'],
        rows: [
          row('a bare machine, until it accepts SSH', bare),
          row('POST /projects to healthy, from the base image', base),
          row('POST /projects to healthy, from the snapshot', snapshot),
        ],
      },
    ],
    targets: [
      { what: 'from the base image, above the boot: p50, s', value: fromBase, target: FROM_BASE_SECONDS },
      { what: 'from the snapshot, above the boot: p50, s', value: fromSnapshot, target: FROM_SNAPSHOT_SECONDS },
    ].map((target) => ({ ...target, bound: 'at most' as const })),
    skipped: [],
    data: { bare, base, snapshot },
  };
}

async function withPlatform<T>(cloud: TestCloud, snapshot: 'on' | 'off', work: (platform: Platform) => Promise<T>) {
  const platform = await Platform.start({ ...cloud.settings, SLIPWAY_HCLOUD_SNAPSHOT: snapshot });
  try {
    return await work(platform);
  } finally {
    await platform.close();
    await cloud.clear();
  }
}

/** The first project also packs the software, so it does not count. */
async function projects(platform: Platform, say: BenchContext['say'], how: string): Promise<number[]> {
  const seconds: number[] = [];
  say(`${ROUNDS} projects ${how}, after one that does not count`);
  for (let round = 0; round <= ROUNDS; round += 1) {
    const begun = performance.now();
    await platform.createProject(POLL_MS, 'dedicated', PATIENCE_MS);
    if (round > 0) seconds.push((performance.now() - begun) / 1000);
  }
  return seconds;
}

async function bareMachine(cloud: TestCloud, round: number): Promise<number> {
  const begun = performance.now();
  const { server } = (await cloud.call('POST', '/servers', {
    name: `bare-${round}-${cloud.label}`,
    server_type: 'cpx22',
    location: 'fsn1',
    image: 'debian-12',
    labels: { 'slipway.dev/installation': cloud.label },
  })) as { server: { id: number; public_net: { ipv4: { ip: string } } } };
  while (!(await accepts(server.public_net.ipv4.ip))) await sleep(POLL_MS);
  const seconds = (performance.now() - begun) / 1000;
  await cloud.call('DELETE', `/servers/${server.id}`);
  // The test cloud gives the next machine the same address, before the former network is gone.
  await sleep(AFTER_DELETION_MS);
  return seconds;
}

const accepts = (host: string) =>
  new Promise<boolean>((resolve) => {
    const socket = connect({ host, port: 22 });
    const end = (result: boolean) => {
      socket.destroy();
      resolve(result);
    };
    socket.setTimeout(1_000, () => end(false));
    // sshd sends its version first.
    socket.once('data', () => end(true)).once('error', () => end(false));
  });

async function untilSnapshot(cloud: TestCloud): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const images = (await cloud.list('images')) as unknown as { status: string }[];
    if (images.some(({ status }) => status === 'available')) break;
    if (performance.now() > deadline) throw new Error('no snapshot was made');
    await sleep(1_000);
  }
}

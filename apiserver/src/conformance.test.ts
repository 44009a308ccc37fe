/**
 * One suite, run against this server always and, unchanged, against the real kube-apiserver where there is one: where their words or
 * ways differ, this server is wrong.
 */
import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { clients } from './conformance/clients.js';
import { deletion } from './conformance/deletion.js';
import { patches } from './conformance/patches.js';
import { reads } from './conformance/reads.js';
import { type Cases, type Fixture, register, setUp } from './conformance/suite.js';
import { Target } from './conformance/target.js';
import { writes } from './conformance/writes.js';
import { startTestApiServer } from './testing.js';

const run = promisify(execFile);
const KUBE = fileURLToPath(new URL('../../../shared/kube/kube', import.meta.url));
const groups: Record<string, Cases> = { writes, patches, reads, deletion };

const hasKubectl = await run('kubectl', ['version', '--client']).then(
  () => true,
  () => false,
);
if (hasKubectl) groups.clients = clients;
else console.log('# skipped: the cases of kubectl, as there is no kubectl on PATH');

// Everything is set up before the first suite is registered: uvu runs what is registered as soon as it may.
const server = await startTestApiServer();
const ours = await setUp(new Target('ours', server.kubeconfig));
const real = await realFixture();
register(ours, groups, () => server.close());
if (real) register(real, groups, async () => {});

async function realFixture(): Promise<Fixture | undefined> {
  const isThere = await stat(KUBE).then(
    () => true,
    () => false,
  );
  if (!isThere) {
    console.log('# skipped: the run against the real kube-apiserver, as ../shared/kube/kube is not there');
    return undefined;
  }
  const { stdout } = await run(KUBE, ['up', '--api-only']);
  return setUp(new Target('real', stdout.trim().split('\n').at(-1) ?? ''));
}

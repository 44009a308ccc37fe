/**
 * One suite, run against this server always and, unchanged, against the real kube-apiserver where there is one: where
 * their words or ways differ, this server is wrong.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { clients } from './conformance/clients.js';
import { deletion } from './conformance/deletion.js';
import { limits } from './conformance/limits.js';
import { patches } from './conformance/patches.js';
import { reads } from './conformance/reads.js';
import { type Cases, register, setUp } from './conformance/suite.js';
import { Target } from './conformance/target.js';
import { writes } from './conformance/writes.js';
import { referenceKubeconfig } from './reference-kubeconfig.js';
import { startTestApiServer } from './testing.js';

const run = promisify(execFile);
const groups: Record<string, Cases> = { writes, patches, reads, deletion, limits };

const hasKubectl = await run('kubectl', ['version', '--client']).then(
  () => true,
  () => false,
);
if (hasKubectl) groups.clients = clients;
else console.log('# skipped: the cases of kubectl, as there is no kubectl on PATH');

// Everything is set up before the first suite is registered: uvu runs what is registered as soon as it may.
const server = await startTestApiServer();
const ours = await setUp(new Target('ours', server.kubeconfig));
const kubeconfig = referenceKubeconfig();
const real = kubeconfig === undefined ? undefined : await setUp(new Target('real', kubeconfig));
register(ours, groups, () => server.close());
if (real) register(real, groups, async () => {});

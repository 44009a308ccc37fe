/**
 * Compares the rights of the programs' service accounts with their requests in the API server's audit log. They must
 * have all rights that they need, and no others.
 */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { BUILDS_NAMESPACE, DATA_NAMESPACE, LABEL_PROJECT, PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/installation';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type AuditedRequest, auditedRequests, covers, grants, inWords } from './cluster/audit.js';
import { givenCluster } from './cluster/given.js';
import { type ClusterPlatform, startOnCluster } from './cluster/platform.js';
import { run as runProgram } from './cluster/run.js';
import { KUBE, testClusterKubeconfig } from './cluster/test-cluster.js';
import { leadWholeLives } from './cluster/whole-life.js';
import { kubectl } from './kubectl.js';

/** Matches the roles that every authenticated user has, for discovery. */
const EVERYONES = /"system:(discovery|basic-user|public-info-viewer)"/;
const OURS = new RegExp(`RoleBinding "slipway-[a-z-]+(/(${SYSTEM_NAMESPACE}|${BUILDS_NAMESPACE}))?"`);

/**
 * Rights that no project of this test uses. The API reads the first after it was killed between two writes
 * (api/src/projects/project-ids.ts). The rights on Builds are for deploys of frontend projects, which this test does
 * not have.
 */
const RARELY_USED = [
  'api: get secrets project-jwt',
  'api: get builds.slipway.dev',
  'api: list builds.slipway.dev',
  'api: create builds.slipway.dev',
  'api: patch builds.slipway.dev',
  'api: patch builds/status.slipway.dev',
  'operator: delete builds.slipway.dev',
  'operator: patch builds/status.slipway.dev',
];

const cluster = givenCluster();
const isTestCluster = cluster && existsSync(KUBE) && cluster.kubeconfig === (await testClusterKubeconfig());
if (cluster && !isTestCluster) console.log('# skipped: only the test cluster is known to keep an audit log');
if (cluster && isTestCluster) {
  const log = path.join(path.dirname(cluster.kubeconfig), 'log', 'audit.log');
  const run = (...args: string[]) => kubectl(cluster.kubeconfig, args);
  let platform: ClusterPlatform;
  let requests: AuditedRequest[] = [];

  test.before(async () => {
    await runProgram(KUBE, ['up', '--audit']);
    platform = await startOnCluster(cluster.kubeconfig, cluster.overlay);
  });
  test.after(async () => {
    await platform?.close();
  });

  test('the projects of this test go through all their states', async () => {
    await leadWholeLives(platform);
    const since = ['get', 'namespace', SYSTEM_NAMESPACE, '-o', 'jsonpath={.metadata.creationTimestamp}'];
    requests = await auditedRequests(log, await run(...since));
  });

  test('no program sends a request that the API server rejects', () => {
    assert.equal(requests.filter(({ isAllowed }) => !isAllowed).map(inWords), []);
  });

  test('each request of a program is allowed by the manifests’ roles, or to everyone', () => {
    assert.ok(requests.length > 0);
    const byOthers = requests.filter(
      ({ isAllowed, reason }) => isAllowed && !OURS.test(reason) && !EVERYONES.test(reason),
    );
    assert.equal(
      byOthers.map((request) => `${inWords(request)}: ${request.reason}`),
      [],
    );
  });

  test('every right that the manifests grant is used by a request', () => {
    const unused = grants().filter((grant) => !requests.some((request) => covers(grant, request)));
    assert.equal(
      unused.map(inWords).filter((grant) => !RARELY_USED.includes(grant)),
      [],
    );
  });

  test('a compromised program can write only in projects’ namespaces, and cannot create tokens of others', async () => {
    const as = (program: string, args: string[], input?: string) =>
      kubectl(cluster.kubeconfig, [`--as=system:serviceaccount:${SYSTEM_NAMESPACE}:${program}`, ...args], input).then(
        () => 'done',
        (error: Error) => /denied request: ([^:\n]*)/.exec(error.message)?.[1] ?? error.message,
      );
    const places = /^Slipway's programs write in the namespaces of projects alone/;
    const secret = ['create', 'secret', 'generic', 'project-env', '--from-literal=a=b', '--dry-run=server'];
    for (const namespace of ['kube-system', 'default', SYSTEM_NAMESPACE, DATA_NAMESPACE]) {
      assert.match(await as(PROGRAMS.api, [...secret, '-n', namespace]), places);
    }
    assert.match(await as(PROGRAMS.api, ['create', 'namespace', 'p-unlabelled', '--dry-run=server']), places);
    for (const namespace of ['kube-system', 'default']) {
      assert.match(await as(PROGRAMS.operator, [...secret, '-n', namespace]), places);
    }
    assert.match(await as(PROGRAMS.operator, ['delete', 'namespace', 'kube-node-lease', '--dry-run=server']), places);

    const namespace = 'p-roles-test';
    await run('create', 'namespace', namespace);
    try {
      await run('label', 'namespace', namespace, `${LABEL_PROJECT}=roles-test`);
      assert.is(await as(PROGRAMS.api, [...secret, '-n', namespace]), 'done');
      const token = JSON.stringify({
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name: 'project-env', annotations: { 'kubernetes.io/service-account.name': 'default' } },
        type: 'kubernetes.io/service-account-token',
      });
      for (const program of [PROGRAMS.api, PROGRAMS.operator]) {
        const error = await as(program, ['create', '-f', '-', '--dry-run=server', '-n', namespace], token);
        assert.match(error, /^Slipway's programs make no Secrets that the cluster fills/);
      }
    } finally {
      await run('delete', 'namespace', namespace);
    }
  });
}

test.run();

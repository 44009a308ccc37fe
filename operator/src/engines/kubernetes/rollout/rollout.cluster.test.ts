/**
 * Tests new default images on a real Kubernetes, with its pods and its kubelet's errors. SLIPWAY_E2E_KUBECONFIG names
 * the cluster, which has the images.
 */

import { API_VERSION, type Project } from '@slipway/crds';
import { databaseOf, LABEL_PROJECT, namespaceOf, readSite, SECRETS, type Site } from '@slipway/installation';
import type { KubeClient, KubeObject } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { EnginePart, EngineProject } from '../../../capabilities/index.js';
import { ownerReference } from '../../../runtime/owner-reference.js';
import { clientOf, silentLog } from '../../../testing.js';
import type { Children } from '../children/children.js';
import { isServing, type Workload } from '../children/diagnosis.js';
import {
  clusterKubeconfig,
  makeIfMissing,
  prepareCluster,
  removeProject,
  removeShared,
  SKIPPED,
  watchCluster,
} from '../cluster.testing.js';
import { PostgresClusters } from '../postgres-cluster/clusters.js';
import { DeployedServices } from '../services/deployed-services.js';
import { Rollout, type Seen } from './rollout.js';

const REFS = ['er-a', 'er-b', 'er-c'];
const LATER = 'er-later';
const BATCH = 1;
const REGION = 'us-west';
const PROJECTS = `/apis/${API_VERSION}/projects`;
const passwords = { owner: 'owner-password', authenticator: 'authenticator-password', authAdmin: 'auth-password' };

const FIRST = { auth: 'slipway/auth:dev', rest: 'slipway/rest:dev' };
/** Other names of the same images, as in the next version of an installation. */
const SECOND = { auth: 'docker.io/slipway/auth:dev', rest: 'docker.io/slipway/rest:dev' };
const BROKEN = { ...SECOND, rest: 'slipway/rest:there-is-none' };

const siteWith = (images: object): Site =>
  readSite(
    JSON.stringify({
      publicUrl: 'http://slipway.test',
      images: { ...images, pullPolicy: 'IfNotPresent' },
      rollout: { batch: BATCH },
      sharedDatabase: { cpu: '25m', memory: '512Mi', storage: '1Gi' },
    }),
  );

interface Context {
  client: KubeClient;
  children: Children;
  clusters: PostgresClusters;
  projects: Map<string, EngineProject>;
  close(): Promise<unknown>;
}

const open = new Set<Keeper>();

/** Reconciles the services of this test's projects, as an operator with these settings does, until it is closed. */
class Keeper {
  readonly #told = new Map<string, EnginePart>();
  readonly #rollout: Rollout;
  readonly #services: DeployedServices;
  readonly #projects: ReadonlyMap<string, EngineProject>;
  readonly #due = new Set<string>();
  #mostUnderway = 0;
  #closed = false;
  #work: Promise<void> = Promise.resolve();

  constructor({ children, projects }: Context, images: object) {
    open.add(this);
    const site = siteWith(images);
    const isOurs = ({ metadata }: KubeObject) => projects.has(metadata.labels?.[LABEL_PROJECT] ?? '');
    // Other projects of this cluster have rollouts of their own.
    const seen: Seen = {
      all: <T extends KubeObject>(kind: string) => children.all<T>(kind).filter(isOurs),
      get: children.get.bind(children),
      list: children.list.bind(children),
      onChange: children.onChange.bind(children),
    };
    this.#projects = projects;
    this.#rollout = new Rollout(seen, site);
    this.#services = new DeployedServices(children, site, this.#rollout);
    const look = (ref: string) => this.look(ref);
    children.onChange(look);
    this.#rollout.onTurn(look);
    for (const ref of projects.keys()) this.look(ref);
  }

  look(ref: string): void {
    if (this.#closed || !this.#projects.has(ref) || this.#due.has(ref)) return;
    this.#due.add(ref);
    this.#work = this.#work.then(() => this.#keep(ref));
  }

  /** Returns the reported reason of the condition of its images. */
  told(ref: string): string | undefined {
    const outcome = this.#told.get(ref)?.outcome;
    return outcome?.state === 'ready' ? 'Ready' : outcome?.state === 'failed' ? outcome.reason : outcome?.reason;
  }

  message(ref: string): string {
    const outcome = this.#told.get(ref)?.outcome;
    return outcome && outcome.state !== 'ready' ? outcome.message : '';
  }

  /** The largest number of projects that were between old pods and new ones at a time. */
  get mostUnderway(): number {
    return this.#mostUnderway;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#rollout.close();
    await this.#work;
    open.delete(this);
  }

  async #keep(ref: string): Promise<void> {
    this.#due.delete(ref);
    const project = this.#projects.get(ref);
    if (this.#closed || !project) return;
    const parts = await this.#services.ensure(project, `http://${ref}.slipway.test`);
    const images = parts.find(({ condition }) => condition === 'ImagesCurrent');
    if (images) this.#told.set(ref, images);
    this.#mostUnderway = Math.max(this.#mostUnderway, this.#rollout.counts().underway);
  }
}

function testOn(path: string): void {
  const test = suite<Context>('new default images on a cluster');

  test.before(async (context) => {
    context.client = await clientOf(path);
    await prepareCluster(context.client);
    const { children, close } = await watchCluster(context.client);
    const replicationPassword = async () => 'of-the-reader-of-changes';
    const { client } = context;
    context.children = children;
    context.close = close;
    context.clusters = new PostgresClusters({
      site: siteWith(FIRST),
      client,
      children,
      replicationPassword,
      onChange: () => {},
      log: silentLog,
    });
    context.projects = new Map();
    for (const ref of REFS) await make(context, ref);
  });
  test.after(async ({ client, clusters, close }) => {
    for (const keeper of open) await keeper.close();
    await clusters.close();
    for (const ref of [...REFS, LATER]) await removeProject(client, ref);
    await removeShared(client, REGION);
    await close();
    await client.close();
  });

  test('all new projects get the new images at once', async (context) => {
    const keeper = new Keeper(context, FIRST);
    await allHave(context, keeper, FIRST);
    await keeper.close();
  });

  test('new images spread in batches until all projects have them, without an interruption', async (context) => {
    const unserved = new Set<string>();
    context.children.onChange((ref) => {
      if (REFS.includes(ref) && !serves(context, ref)) unserved.add(ref);
    });
    const keeper = new Keeper(context, SECOND);
    await allHave(context, keeper, SECOND);
    await keeper.close();
    assert.is(keeper.mostUnderway, BATCH);
    assert.equal([...unserved], []);
  });

  test('a rollout of a missing image stops at the first project, and all projects are served', async (context) => {
    const keeper = new Keeper(context, BROKEN);
    const [first, ...others] = REFS as [string, ...string[]];
    await until(() => keeper.told(first) === 'RolloutFailed', 'the first to fail');
    await until(() => others.every((ref) => keeper.told(ref) === 'RolloutHalted'), 'the reports to the others');
    for (const ref of others) {
      assert.match(keeper.message(ref), new RegExp(`fail in project ${first}: the image .*there-is-none`));
      assert.is(imageOf(context, ref, 'rest'), SECOND.rest);
    }
    assert.ok(REFS.every((ref) => serves(context, ref)));
    await keeper.close();
  });

  test('an operator continues a killed operator’s rollout once the image is right, and not before', async (context) => {
    const [first, ...others] = REFS as [string, ...string[]];
    const second = new Keeper(context, BROKEN);
    await until(() => others.every((ref) => second.told(ref) === 'RolloutHalted'), 'the reports to the others');
    await second.close();
    const right = new Keeper(context, FIRST);
    await until(() => others.every((ref) => right.told(ref) === 'Ready'), 'the healthy projects to come first');
    await until(() => right.told(first) === 'Ready', 'the failed project to be healthy');
    await allHave(context, right, FIRST);
    assert.is(right.mostUnderway, BATCH);
    await make(context, LATER);
    right.look(LATER);
    await until(() => right.told(LATER) === 'Ready', 'a project that is made later');
    await right.close();
  });

  test.run();
}

const deploymentOf = ({ children }: Context, ref: string, part: string) =>
  children.get<Workload>('Deployment', namespaceOf(ref), part);
const imageOf = (context: Context, ref: string, part: string) =>
  deploymentOf(context, ref, part)?.metadata.annotations?.['slipway.dev/image'];
const serves = (context: Context, ref: string) =>
  ['auth', 'rest'].every((part) => {
    const deployment = deploymentOf(context, ref, part);
    return deployment !== undefined && isServing(deployment);
  });

const allHave = (context: Context, keeper: Keeper, images: { auth: string; rest: string }) =>
  until(
    () =>
      REFS.every(
        (ref) =>
          keeper.told(ref) === 'Ready' &&
          imageOf(context, ref, 'auth') === images.auth &&
          imageOf(context, ref, 'rest') === images.rest,
      ),
    'all projects to have the images',
  );

/**
 * Creates a project's namespace, database and Secrets. Its Project has a type that no operator of this cluster
 * reconciles.
 */
async function make({ client, clusters, projects }: Context, ref: string): Promise<void> {
  const owner = 'owner@example.com';
  const metadata = { name: ref };
  await makeIfMissing(client, PROJECTS, {
    apiVersion: API_VERSION,
    kind: 'Project',
    metadata,
    spec: { owner, type: 'dedicated', region: REGION, plan: 'starter' },
  });
  const uid = (await client.get<Project>(`${PROJECTS}/${ref}`)).metadata.uid as string;
  const standing = { suspended: false, retain: false, placement: undefined };
  const project: EngineProject = { ref, uid, owner, type: 'shared', region: REGION, plan: 'starter', ...standing };
  const labels = { [LABEL_PROJECT]: ref, 'app.kubernetes.io/managed-by': 'slipway' };
  const ownerReferences = [ownerReference(project)];
  await makeIfMissing(client, '/api/v1/namespaces', {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: namespaceOf(ref), labels, ownerReferences },
  });
  await until(async () => {
    const outcome = await clusters.ensure({ project, databaseId: ref, passwords, existed: false });
    return outcome.state === 'ready';
  }, `the database of ${ref}`);
  const { host, port } = clusters.addressOf(project);
  const { database: login, keys } = SECRETS;
  await secret(client, project, keys.name, { [keys.jwtSecret]: 'a secret that has more than 32 characters' });
  await secret(client, project, login.name, {
    [login.host]: host,
    [login.port]: String(port),
    [login.database]: databaseOf(ref),
    [login.authenticatorPassword]: passwords.authenticator,
    [login.authAdminPassword]: passwords.authAdmin,
  });
  projects.set(ref, project);
}

const secret = (client: KubeClient, { ref }: EngineProject, name: string, stringData: Record<string, string>) =>
  makeIfMissing(client, `/api/v1/namespaces/${namespaceOf(ref)}/secrets`, {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, labels: { [LABEL_PROJECT]: ref } },
    stringData,
  });

if (clusterKubeconfig) testOn(clusterKubeconfig);
else console.log(SKIPPED);

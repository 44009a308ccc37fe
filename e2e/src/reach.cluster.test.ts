/**
 * Connections from a shell in a tenant's pod: every pair of each kind of pod and target that the platform makes. The
 * addresses are real: a witness that may connect proves it.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import {
  DATA_NAMESPACE,
  DEPLOYED_SERVICES,
  FUNCTIONS_CONTROL_PORT,
  LABEL_CLUSTER,
  LABEL_PART,
  namespaceOf,
  PART_AUTH,
  PART_POSTGRES,
  PART_REST,
  type Plan,
  PROGRAMS,
  SYSTEM_NAMESPACE,
  sharedClusterOf,
} from '@slipway/crds';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { givenCluster } from './cluster/given.js';
import { type ClusterPlatform, startOnCluster } from './cluster/platform.js';
import { kubectl } from './kubectl.js';
import { Management, type ProjectView } from './management.js';
import { Places } from './reach/places.js';
import { type Address, attempts, type Outcome, type Pod } from './reach/shell.js';

const REGION = 'eu-central';
const POSTGRES_PORT = 5432;
const PROGRAM_PORT = 8080;
/** A pod that is nobody's, in a namespace without policies: to see that an address answers those who may ask. */
const OUTSIDER = { namespace: 'slipway-e2e-outsider', name: 'outsider', speaks: 'node' } as const;

interface Scene {
  platform: ClusterPlatform;
  places: Places;
  person: Management;
  /** On the shared Postgres, and on one of its own. */
  starter: ProjectView;
  pro: ProjectView;
  neighbour: ProjectView;
  /** A port that this machine listens at, at all its addresses. */
  listener: Server;
}

type Witness = 'gateway' | 'operator' | 'outsider';

interface Target {
  name: string;
  at(scene: Scene): Promise<Address> | Address;
  /** The witness that can connect. */
  witness?: Witness;
}

const part = (name: string) => `${LABEL_PART}=${name}`;
const program = (name: string) => `app.kubernetes.io/name=${name}`;
const shared = sharedClusterOf(REGION);

const sharedPostgres: Target = {
  name: 'the Postgres that others of the region share',
  at: ({ places }) => places.service(DATA_NAMESPACE, shared, POSTGRES_PORT),
  witness: 'gateway',
};

const atNeighbour = (name: string, service: string, port: number, byPod = false): Target => ({
  name: `a neighbour’s ${name}`,
  at: ({ places, neighbour }) =>
    byPod
      ? places.pod(namespaceOf(neighbour.ref), part(service), port)
      : places.service(namespaceOf(neighbour.ref), service, port),
  witness: 'gateway',
});

const atSystem = (name: string, service: string, port: number, witness?: Witness): Target => ({
  name: `the platform’s ${name}`,
  at: ({ places }) => places.service(SYSTEM_NAMESPACE, service, port),
  ...(witness ? { witness } : {}),
});

const kubernetesApi: Target = {
  name: 'the Kubernetes API by its Service',
  at: ({ places }) => places.service('default', 'kubernetes', 443),
  witness: 'outsider',
};
const kubernetesApiServer: Target = {
  name: 'the Kubernetes API server itself',
  at: ({ places }) => places.apiServer(),
  witness: 'outsider',
};
const gateway = atSystem('gateway', PROGRAMS.dataplane, 80, 'operator');
const functions: Target[] = [
  atSystem('functions', PROGRAMS.functions, PROGRAM_PORT, 'gateway'),
  { ...atSystem('control of functions', PROGRAMS.functions, FUNCTIONS_CONTROL_PORT), witness: 'operator' },
];

const FORBIDDEN: Target[] = [
  atNeighbour('auth', PART_AUTH, DEPLOYED_SERVICES.auth.port),
  atNeighbour('auth pod', PART_AUTH, DEPLOYED_SERVICES.auth.port, true),
  atNeighbour('rest', PART_REST, DEPLOYED_SERVICES.rest.port),
  atNeighbour('rest pod', PART_REST, DEPLOYED_SERVICES.rest.port, true),
  { ...atNeighbour('rest probes', PART_REST, DEPLOYED_SERVICES.rest.adminPort), witness: 'operator' },
  atNeighbour('Postgres', PART_POSTGRES, POSTGRES_PORT),
  atNeighbour('Postgres pod', PART_POSTGRES, POSTGRES_PORT, true),
  kubernetesApi,
  kubernetesApiServer,
  atSystem('database', PROGRAMS.postgres, POSTGRES_PORT, 'operator'),
  // No pod may reach it but the ingress controller's: the walks through it are the witness.
  atSystem('API', PROGRAMS.api, 80),
  gateway,
  atSystem('realtime', PROGRAMS.realtime, PROGRAM_PORT, 'gateway'),
  atSystem('storage', PROGRAMS.storage, PROGRAM_PORT, 'gateway'),
  ...functions,
  {
    name: 'the platform’s operator',
    at: ({ places }) => places.pod(SYSTEM_NAMESPACE, program(PROGRAMS.operator), PROGRAM_PORT),
  },
  { name: 'the node’s kubelet', at: ({ places }) => places.kubelet(), witness: 'outsider' },
  // Answered by clouds alone.
  { name: 'the cloud’s metadata', at: () => ({ host: '169.254.169.254', port: 80 }) },
  ...machineAddresses().map(
    (host): Target => ({
      name: `the machine at ${host}`,
      at: ({ listener }) => ({ host, port: (listener.address() as AddressInfo).port }),
      witness: 'outsider',
    }),
  ),
];

interface Source {
  name: string;
  shell(scene: Scene): Promise<Pod>;
  /** Targets that only this pod, or pods with their database elsewhere, may not reach. */
  alsoForbidden: Target[];
  needs: Target[];
  /** Targets that this pod alone may reach. */
  has?: Target[];
}

const service = (owner: 'starter' | 'pro', name: string, whose: string): Source => ({
  name: `${name} of a project ${whose}`,
  shell: ({ places, ...scene }) => places.shell(namespaceOf(scene[owner].ref), part(name), 'node', name),
  alsoForbidden: owner === 'pro' ? [sharedPostgres] : [],
  needs: [
    owner === 'pro' ? ownPostgres : { ...sharedPostgres, name: 'its Postgres' },
    { name: 'its Postgres by name', at: (scene) => ({ host: postgresName(owner, scene), port: POSTGRES_PORT }) },
  ],
});

const ownPostgres: Target = {
  name: 'its Postgres',
  at: ({ places, pro }) => places.service(namespaceOf(pro.ref), PART_POSTGRES, POSTGRES_PORT),
};

const nameServer: Target = {
  name: 'the name server',
  at: ({ places }) => places.service('kube-system', 'kube-dns', 53),
  witness: 'outsider',
};

const SOURCES: Source[] = [
  service('starter', PART_AUTH, 'on the shared Postgres'),
  service('starter', PART_REST, 'on the shared Postgres'),
  service('pro', PART_AUTH, 'with a Postgres of its own'),
  service('pro', PART_REST, 'with a Postgres of its own'),
  {
    name: 'a project’s own Postgres',
    shell: ({ places, pro }) => places.shell(namespaceOf(pro.ref), part(PART_POSTGRES), 'bash'),
    alsoForbidden: [sharedPostgres, nameServer],
    needs: [],
  },
  {
    name: 'the shared Postgres',
    shell: ({ places }) => places.shell(DATA_NAMESPACE, `${LABEL_CLUSTER}=${shared}`, 'bash'),
    alsoForbidden: [nameServer],
    needs: [],
  },
  {
    name: 'the pod that runs tenants’ functions',
    shell: ({ places }) => places.shell(SYSTEM_NAMESPACE, program(PROGRAMS.functions), 'node'),
    alsoForbidden: [sharedPostgres],
    needs: [gateway, kubernetesApi, kubernetesApiServer, nameServer],
    // A pod is not kept from itself.
    has: [gateway, kubernetesApi, kubernetesApiServer, ...functions],
  },
];

const postgresName = (owner: 'starter' | 'pro', { pro }: Scene) =>
  owner === 'pro' ? `${PART_POSTGRES}.${namespaceOf(pro.ref)}.svc` : `${shared}.${DATA_NAMESPACE}.svc`;

/** IPv4 addresses of this machine, which on the test cluster is the node; elsewhere a machine that runs the nodes. */
function machineAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.filter(({ family, internal }) => family === 'IPv4' && !internal).map(({ address }) => address);
}

const cluster = givenCluster();
if (cluster) {
  const scene = {} as Scene;
  test.before(async () => {
    await populate(scene, await startOnCluster(cluster.kubeconfig, cluster.overlay));
  });
  test.after(() => leave(scene));
  for (const source of SOURCES) fromShell(source, scene);
  for (const target of [...FORBIDDEN, sharedPostgres, nameServer]) {
    if (target.witness) witnessed(target, target.witness, scene);
  }
}

/** One attempt at all addresses, and a test for each. */
function fromShell(source: Source, scene: Scene): void {
  const forbidden = [...FORBIDDEN, ...source.alsoForbidden].filter((target) => !source.has?.includes(target));
  const targets = [...forbidden, ...source.needs];
  let attempted: Promise<Outcome[]> | undefined;
  const outcomeOf = async (target: Target) => {
    attempted ??= attemptAll(scene, await source.shell(scene), targets);
    return (await attempted)[targets.indexOf(target)];
  };
  for (const target of source.needs) {
    test(`${source.name} reaches ${target.name}`, async () => {
      assert.is(await outcomeOf(target), 'connected');
    });
  }
  for (const target of forbidden) {
    test(`${source.name} does not reach ${target.name}`, async () => {
      assert.is(await outcomeOf(target), 'silence');
    });
  }
}

async function attemptAll(scene: Scene, pod: Pod, targets: Target[]): Promise<Outcome[]> {
  const addresses = await Promise.all(targets.map((target) => target.at(scene)));
  return await attempts(scene.platform.kubeconfig, pod, addresses);
}

function witnessed(target: Target, witness: Witness, scene: Scene): void {
  const programs = { gateway: PROGRAMS.dataplane, operator: PROGRAMS.operator };
  test(`${target.name} answers the ${witness}, who may reach it`, async () => {
    const pod =
      witness === 'outsider'
        ? OUTSIDER
        : await scene.places.shell(SYSTEM_NAMESPACE, program(programs[witness]), 'node');
    assert.equal(await attemptAll(scene, pod, [target]), ['connected']);
  });
}

/** Creates the objects. Each is noted at once, so that it is removed even if a later one fails. */
async function populate(scene: Scene, platform: ClusterPlatform): Promise<void> {
  scene.platform = platform;
  scene.places = new Places(platform.config);
  scene.person = await Management.register(platform);
  scene.listener = createServer((socket) => socket.destroy()).listen(0, '0.0.0.0');
  await once(scene.listener, 'listening');
  const plans: ['starter' | 'pro' | 'neighbour', Plan][] = [
    ['starter', 'starter'],
    ['pro', 'pro'],
    ['neighbour', 'pro'],
  ];
  for (const [name, plan] of plans) scene[name] = await scene.person.createProject(`reach-${name}`, plan);
  const healthy = plans.map(([name]) => scene.person.untilHealthy(scene[name].id));
  await Promise.all([...healthy, placeOutsider(platform)]);
}

async function placeOutsider({ kubeconfig, site }: ClusterPlatform): Promise<void> {
  const { namespace, name } = OUTSIDER;
  const container = { name, image: site.images.rest, command: ['node', '-e', 'setInterval(() => {}, 60000)'] };
  const objects = [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
    { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace }, spec: { containers: [container] } },
  ];
  const list = { apiVersion: 'v1', kind: 'List', items: objects };
  await kubectl(kubeconfig, ['apply', '-f', '-'], JSON.stringify(list));
  await kubectl(kubeconfig, ['wait', '-n', namespace, `pod/${name}`, '--for=condition=Ready', '--timeout=120s']);
}

async function leave({ platform, person, listener, ...scene }: Partial<Scene>): Promise<void> {
  listener?.close();
  if (platform === undefined) return;
  const ids = [scene.starter, scene.pro, scene.neighbour].flatMap((project) => project?.id ?? []);
  await Promise.all(ids.map((id) => person?.call('DELETE', `/projects/${id}`)));
  await Promise.all(ids.map((id) => person?.untilGone(id)));
  await kubectl(platform.kubeconfig, ['delete', 'namespace', OUTSIDER.namespace, '--ignore-not-found']);
  await platform.close();
}

test.run();

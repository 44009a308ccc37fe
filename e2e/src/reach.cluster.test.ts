/**
 * Opens connections from a shell in a tenant's pod, for every pair of a kind of pod and a target that the platform
 * makes. For each target, a witness that may connect proves that the address is real.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { type Plan } from '@slipway/crds';
import {
  DATA_NAMESPACE,
  DEPLOYED_SERVICES,
  FORMS_PORT,
  FORMS_SERVICE,
  FUNCTIONS_CONTROL_PORT,
  LABEL_CLUSTER,
  LABEL_PART,
  LOGS_PORT,
  LOGS_SERVICE,
  namespaceOf,
  PART_AUTH,
  PART_POSTGRES,
  PART_REST,
  PROGRAMS,
  SYSTEM_NAMESPACE,
  sharedClusterOf,
} from '@slipway/installation';
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
/**
 * A pod outside of the platform, in a namespace without policies. It proves that an address responds to allowed
 * clients.
 */
const OUTSIDER = { namespace: 'slipway-e2e-outsider', name: 'outsider', speaks: 'node' } as const;

interface Scene {
  platform: ClusterPlatform;
  places: Places;
  person: Management;
  /** One project on the shared Postgres, and one with its own. */
  starter: ProjectView;
  pro: ProjectView;
  neighbour: ProjectView;
  /** A port at all addresses of this machine. */
  listener: Server;
}

const WITNESSES = ['gateway', 'operator', 'api', 'hosting', 'outsider'] as const;
type Witness = (typeof WITNESSES)[number];

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
  name: 'the Postgres that projects of the region share',
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
  // Only pods of the ingress controller can connect. Tests through the Ingress are the witness.
  atSystem('API', PROGRAMS.api, 80),
  atSystem('port for entries of forms', FORMS_SERVICE, FORMS_PORT, 'hosting'),
  gateway,
  atSystem('logs of gateways', LOGS_SERVICE, LOGS_PORT, 'api'),
  atSystem('realtime', PROGRAMS.realtime, PROGRAM_PORT, 'gateway'),
  atSystem('storage', PROGRAMS.storage, PROGRAM_PORT, 'gateway'),
  ...functions,
  {
    name: 'the platform’s operator',
    at: ({ places }) => places.pod(SYSTEM_NAMESPACE, program(PROGRAMS.operator), PROGRAM_PORT),
  },
  { name: 'the node’s kubelet', at: ({ places }) => places.kubelet(), witness: 'outsider' },
  // Only clouds have this address.
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
  /** Targets that this pod may not reach, although other pods may. */
  alsoForbidden: Target[];
  needs: Target[];
  /** Targets that only this pod may reach. */
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
    // A pod can always connect to itself.
    has: [gateway, kubernetesApi, kubernetesApiServer, ...functions],
  },
];

const postgresName = (owner: 'starter' | 'pro', { pro }: Scene) =>
  owner === 'pro' ? `${PART_POSTGRES}.${namespaceOf(pro.ref)}.svc` : `${shared}.${DATA_NAMESPACE}.svc`;

/** Returns the IPv4 addresses of this machine: the node of the test cluster, or else a machine that runs the nodes. */
function machineAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.filter(({ family, internal }) => family === 'IPv4' && !internal).map(({ address }) => address);
}

const cluster = givenCluster();
if (cluster) {
  const scene = {} as Scene;
  const witnessed = [...FORBIDDEN, sharedPostgres, nameServer];
  const all = [
    ...SOURCES.map((source) => fromShell(source, scene)),
    ...WITNESSES.map((witness) => fromWitness(witness, witnessed, scene)),
  ];
  test.before(async () => {
    await populate(scene, await startOnCluster(cluster.kubeconfig, cluster.overlay));
    for (const { begin } of all) begin();
  });
  test.after(() => leave(scene));
}

interface Attempts {
  begin(): void;
  outcomeOf(target: Target): Promise<Outcome | undefined>;
}

/** Tries all addresses from one pod, in one process. All pods start together, because a timeout takes long. */
function attemptsFrom(scene: Scene, pod: () => Promise<Pod> | Pod, targets: Target[]): Attempts {
  let attempted = Promise.resolve<Outcome[]>([]);
  return {
    begin: () => {
      attempted = attemptAll(scene, pod, targets);
      // The tests report a failure. Without tests nobody awaits it.
      attempted.catch(() => undefined);
    },
    outcomeOf: async (target) => (await attempted)[targets.indexOf(target)],
  };
}

async function attemptAll(scene: Scene, pod: () => Promise<Pod> | Pod, targets: Target[]): Promise<Outcome[]> {
  const addresses = await Promise.all(targets.map((target) => target.at(scene)));
  return await attempts(scene.platform.kubeconfig, await pod(), addresses);
}

function fromShell(source: Source, scene: Scene): Attempts {
  const forbidden = [...FORBIDDEN, ...source.alsoForbidden].filter((target) => !source.has?.includes(target));
  const made = attemptsFrom(scene, () => source.shell(scene), [...forbidden, ...source.needs]);
  for (const target of source.needs) {
    test(`${source.name} reaches ${target.name}`, async () => {
      assert.is(await made.outcomeOf(target), 'connected');
    });
  }
  for (const target of forbidden) {
    test(`${source.name} does not reach ${target.name}`, async () => {
      assert.is(await made.outcomeOf(target), 'silence');
    });
  }
  return made;
}

function fromWitness(witness: Witness, all: Target[], scene: Scene): Attempts {
  const programs = {
    gateway: PROGRAMS.dataplane,
    operator: PROGRAMS.operator,
    api: PROGRAMS.api,
    hosting: PROGRAMS.hosting,
  };
  const targets = all.filter((target) => target.witness === witness);
  const pod = () =>
    witness === 'outsider' ? OUTSIDER : scene.places.shell(SYSTEM_NAMESPACE, program(programs[witness]), 'node');
  const made = attemptsFrom(scene, pod, targets);
  for (const target of targets) {
    test(`${target.name} responds to the ${witness}, which may connect`, async () => {
      assert.is(await made.outcomeOf(target), 'connected');
    });
  }
  return made;
}

/** Creates the objects. Each is recorded at once, so that it is removed even if a later one fails. */
async function populate(scene: Scene, platform: ClusterPlatform): Promise<void> {
  scene.platform = platform;
  scene.places = new Places(platform.kubeconfig);
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

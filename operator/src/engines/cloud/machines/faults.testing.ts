/**
 * A bed for tests of faults: the engine of machines on a real Kubernetes API, over a proxy to the test cloud. The proxy
 * injects faults into the requests of one project alone, and counts what it forwards.
 */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { SYSTEM_NAMESPACE } from '@slipway/installation';
import { isConflict, type KubeClient, type KubeObject } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import type { EngineOutcome, EngineProject, MachineDocument } from '../../../capabilities/index.js';
import { silentLog, startTestKubernetes, type TestKubernetes } from '../../../testing.js';
import { hetznerProvider } from '../hetzner/provider.js';
import { SshClient } from '../ssh/ssh-client.js';
import { CloudMachines, type CloudMachinesOptions } from './cloud-machines.js';
import { labelsOf } from './labels.js';
import { findRecord, type MachineRecord } from './record.js';

export const cloudUrl = process.env.SLIPWAY_TEST_CLOUD_URL;

/** A fault of the next `times` requests that `match` accepts. */
export interface Fault {
  /** `POST /servers`; only requests that name the project count. */
  match: RegExp;
  times: number;
  /** Requests that do not name the project count too. */
  any?: true;
  status?: number;
  code?: string;
  headers?: Record<string, string>;
  /** The request is executed, and its response is cut. */
  cut?: true;
  /**
   * The request is executed after this time, also if the caller has closed the connection. Keys in it were valid when
   * it was sent, so they do not make it fail.
   */
  delayMs?: number;
  /** The next machine never boots, boots without sshd, or stays off. */
  boot?: 'never' | 'nossh' | 'off';
}

export interface CloudServer {
  id: number;
  name: string;
  status: string;
  labels: Record<string, string>;
  public_net: { ipv4: { ip: string } };
  location: { name: string };
  server_type: { name: string };
}

/** Limits in which a machine of the test cloud succeeds, and that a test can wait for. */
export const LIMITS: NonNullable<CloudMachinesOptions['limits']> = {
  boot: 12_000,
  connect: 15_000,
  install: 25_000,
  configure: 60_000,
  start: 20_000,
  total: 100_000,
  look: 2_000,
  silence: 6_000,
  refused: 1_000,
  late: 12_000,
};

export interface OperatorPlace {
  /** The address of the provider's API. */
  url: string;
  installation: string;
  /** Has the file `token`. */
  folder: string;
  limits: NonNullable<CloudMachinesOptions['limits']>;
  /** Default: more than tests need. */
  maxMachines?: number;
}

/** Makes an engine over what a former one left. */
export const operatorOf = (
  client: KubeClient,
  { url, installation, folder, limits, maxMachines = 100 }: OperatorPlace,
): CloudMachines =>
  new CloudMachines({
    provider: hetznerProvider({ url, tokenFile: path.join(folder, 'token') }),
    client,
    installation,
    packs: path.join(tmpdir(), 'slipway-faults-packs'),
    snapshot: false,
    maxMachines,
    sockets: path.join(folder, 's'),
    replicationPassword: async () => 'of-the-reader-of-changes',
    isProject: () => true,
    deletesOrphans: false,
    onOrphans: () => undefined,
    log: silentLog,
    limits,
  });

/** Looks at the project once, as the controller does. Returns the outcome, and a part for each stage that has begun. */
export async function stepOf(machines: CloudMachines, project: EngineProject) {
  const ensured = await machines.ensure(project);
  if (ensured.outcome.state !== 'ready') return ensured;
  const { outcome, parts } = await machines.configure(project, documentOf(project));
  return { outcome, parts: [...ensured.parts, ...parts.filter(({ advisory }) => !advisory)] };
}

export class FaultBed {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'slipway-faults-'));
  readonly installation = `f${randomBytes(4).toString('hex')}`;
  /** Requests that were forwarded, such as `POST /servers`. */
  readonly requests: { name: string; text: string }[] = [];
  machines!: CloudMachines;
  #kubernetes!: TestKubernetes;
  #proxy!: Server;
  readonly #faults: { fault: Fault; of: string }[] = [];
  /** The largest number of machines that each project had at once. */
  readonly #most = new Map<string, number>();
  readonly #refs = new Set<string>();
  #sampling = true;
  #sampler: Promise<void> | undefined;

  static async start(): Promise<FaultBed> {
    const bed = new FaultBed();
    bed.#kubernetes = await startTestKubernetes();
    const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: SYSTEM_NAMESPACE } };
    await bed.#kubernetes.client.create('/api/v1/namespaces', namespace).catch((error: unknown) => {
      if (!isConflict(error)) throw error;
    });
    bed.#proxy = createServer((request, response) => {
      bed.#forward(request, response).catch(() => response.destroy());
    });
    await new Promise<void>((resolve) => bed.#proxy.listen(0, '127.0.0.1', resolve));
    writeFileSync(path.join(bed.folder, 'token'), 'any-token');
    bed.startOperator();
    bed.#sampler = bed.#sample();
    return bed;
  }

  /** Starts an engine over what the former one left. */
  startOperator(limits = LIMITS, maxMachines?: number): void {
    this.machines = operatorOf(this.#kubernetes.client, {
      ...this.place,
      limits,
      ...(maxMachines !== undefined && { maxMachines }),
    });
  }

  /** Where an engine finds the cloud, and keeps its files. */
  get place(): OperatorPlace {
    const { installation, folder } = this;
    const url = `http://127.0.0.1:${(this.#proxy.address() as AddressInfo).port}/v1`;
    return { url, installation, folder, limits: LIMITS };
  }

  get kubeconfig(): string {
    return this.#kubernetes.kubeconfig;
  }

  async project(ref: string): Promise<EngineProject> {
    this.#refs.add(ref);
    const made = await this.#kubernetes.client.create<KubeObject & { spec: object }>(
      '/apis/slipway.dev/v1alpha1/projects',
      {
        apiVersion: 'slipway.dev/v1alpha1',
        kind: 'Project',
        metadata: { name: ref },
        spec: { owner: 'al@example.com', name: ref, type: 'dedicated' },
      },
    );
    const uid = made.metadata.uid as string;
    const own = { type: 'dedicated', region: 'eu-central', plan: 'free' } as const;
    return { ref, uid, owner: 'al@example.com', ...own, suspended: false, retain: false, placement: undefined };
  }

  /** The faults are those of the project alone. */
  inject(project: EngineProject, ...faults: Fault[]): void {
    for (const fault of faults) this.#faults.push({ fault, of: project.uid });
  }

  /** Drives the project as the controller does, until the machine runs or `wanted` accepts the outcome. */
  async drive(
    project: EngineProject,
    wanted: (outcome: EngineOutcome) => boolean = isReady,
    patienceMs = 150_000,
  ): Promise<EngineOutcome> {
    return until(() => this.#step(project), wanted, patienceMs);
  }

  async #step(project: EngineProject): Promise<EngineOutcome> {
    return (await stepOf(this.machines, project)).outcome;
  }

  /** Returns the machines of the project, as the cloud itself lists them. */
  async servers({ ref, uid }: EngineProject): Promise<CloudServer[]> {
    const labels = labelsOf(this.installation, { ref, uid });
    return this.#list(
      'servers',
      Object.entries(labels)
        .map((pair) => pair.join('=='))
        .join(','),
    );
  }

  /** Returns the only machine of the project. */
  async server(project: EngineProject): Promise<CloudServer> {
    const [server] = await this.servers(project);
    if (!server) throw new Error(`${project.ref} has no machine`);
    return server;
  }

  /** Returns the names of everything that is labelled as the project's. */
  async left({ ref, uid }: EngineProject): Promise<string[]> {
    const selector = Object.entries(labelsOf(this.installation, { ref, uid }))
      .map((pair) => pair.join('=='))
      .join(',');
    const kinds = ['servers', 'ssh_keys', 'images'] as const;
    const lists = await Promise.all(kinds.map((kind) => this.#list(kind, selector)));
    return lists.flat().map(({ name }) => name);
  }

  call(method: string, route: string, body?: object): Promise<Response> {
    const headers = { authorization: 'Bearer any-token', 'content-type': 'application/json' };
    return fetch(`${cloudUrl}${route}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  }

  /** The number of requests of the project, of the name. */
  count(name: RegExp, { ref }: EngineProject): number {
    return this.requests.filter((request) => name.test(request.name) && request.text.includes(`"${ref}-`)).length;
  }

  /** The number of actions on any machine with the id. */
  actions(id: number, action: string): number {
    return this.requests.filter(({ name }) => name === `POST /servers/${id}/actions/${action}`).length;
  }

  record(project: EngineProject): Promise<MachineRecord | undefined> {
    return findRecord(this.#kubernetes.client, project);
  }

  /** Runs a script on the project's machine as root, over a connection of its own. */
  async sh(project: EngineProject, script: string): Promise<string> {
    const record = (await this.record(project)) as MachineRecord;
    const [server] = await this.servers(project);
    const host = server?.public_net.ipv4.ip ?? '';
    const client = new SshClient({ host, user: 'root', privateKey: record.sshPrivateKey, hostKey: undefined });
    try {
      return (await client.run(['sh', '-c', script], {}, new AbortController().signal)).stdout.trim();
    } finally {
      await client.close();
    }
  }

  /** Cuts the operator's connections to port 22 of an address, and refuses new ones for a time. */
  async cutSsh(address: string, ms: number): Promise<void> {
    const table = `slipway-cut-${this.installation}`;
    const nft = (script: string) => execFileSync('nft', ['-f', '-'], { input: script });
    nft(`table ip ${table} {
      chain output {
        type filter hook output priority 0;
        ip daddr ${address} tcp dport 22 reject with tcp reset
      }
    }`);
    try {
      await sleep(ms);
    } finally {
      nft(`delete table ip ${table}`);
    }
  }

  /** The largest number of machines that the project had at once. */
  most({ ref }: EngineProject): number {
    return this.#most.get(ref) ?? 0;
  }

  async remove(project: EngineProject): Promise<void> {
    const removed = () => this.machines.remove(project);
    await until(removed, ({ state }) => state === 'ready', 90_000);
  }

  async close(): Promise<void> {
    this.#sampling = false;
    await this.#sampler;
    await this.machines.close();
    const selector = `slipway.dev/installation==${this.installation}`;
    for (const kind of ['servers', 'ssh_keys', 'firewalls', 'images'] as const) {
      for (const { id } of await this.#list(kind, selector)) await this.call('DELETE', `/${kind}/${id}`);
    }
    this.#proxy.closeAllConnections();
    this.#proxy.close();
    await this.#kubernetes.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #list(kind: string, selector: string): Promise<CloudServer[]> {
    const response = await this.call('GET', `/${kind}?label_selector=${encodeURIComponent(selector)}&per_page=50`);
    return ((await response.json()) as Record<string, CloudServer[]>)[kind] ?? [];
  }

  async #sample(): Promise<void> {
    while (this.#sampling) {
      const servers = await this.#list('servers', `slipway.dev/installation==${this.installation}`).catch(() => []);
      for (const ref of this.#refs) {
        const now = servers.filter(({ labels }) => labels['slipway.dev/project'] === ref).length;
        this.#most.set(ref, Math.max(now, this.#most.get(ref) ?? 0));
      }
      await sleep(200);
    }
  }

  async #forward(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString();
    const route = (request.url ?? '').replace('/v1', '');
    const name = `${request.method} ${route.split('?')[0]}`;
    const text = `${decodeURIComponent(route)} ${body}`;
    const found = this.#faults.find(
      ({ fault, of }) => fault.times > 0 && fault.match.test(name) && (fault.any || text.includes(of)),
    );
    const fault = found?.fault;
    if (fault) fault.times -= 1;
    if (fault?.delayMs) await sleep(fault.delayMs);
    if (fault?.status) {
      const error = { code: fault.code ?? 'server_error', message: 'a fault of the test', details: {} };
      response.writeHead(fault.status, { 'content-type': 'application/json', ...fault.headers });
      return void response.end(JSON.stringify({ error }));
    }
    this.requests.push({ name, text });
    if (fault?.boot) await this.#bootFault(fault.boot);
    const sent = body === '' ? undefined : (JSON.parse(body) as object);
    const method = request.method ?? 'GET';
    let answer = await this.call(method, route, sent);
    if (!answer.ok && fault?.delayMs) answer = await this.call(method, route, { ...sent, ssh_keys: [] });
    const content = await answer.text();
    if (fault?.cut) return void response.destroy();
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    response.end(content);
  }

  /** The next creation uses it up: it is the one that is forwarded now. */
  #bootFault(boot: string): Promise<Response> {
    const body = JSON.stringify({ boot, times: 1 });
    return fetch(new URL('/faults', cloudUrl), { method: 'POST', body });
  }
}

export const isReady = ({ state }: EngineOutcome) => state === 'ready';
export const isFailed = ({ state }: EngineOutcome) => state === 'failed';

function documentOf({ ref, uid }: EngineProject): MachineDocument {
  const login = (user: string) => ({ host: 'x', port: 5432, database: 'postgres', user, password: uid });
  return {
    ref,
    type: 'dedicated',
    plan: 'free',
    services: ['database', 'auth', 'rest', 'realtime', 'storage', 'functions'],
    url: `http://localhost:4000/p/${ref}`,
    jwt: { secret: 'a secret of the project with more than 32 characters' },
    apiKeys: { anon: 'anon', serviceRole: 'service' },
    logins: { authenticator: login('authenticator'), authAdmin: login('auth_admin'), owner: login('owner') },
    replicationSlot: 'slot',
    authConfig: {},
    environment: {},
  };
}

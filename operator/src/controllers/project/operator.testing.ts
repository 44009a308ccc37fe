/**
 * Helpers for tests of the Project controller: a real Kubernetes API, a real Postgres, the operator. A small server
 * replaces the data plane, so that the test decides its responses.
 */

import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Project } from '@slipway/crds';
import type { KubeObject } from '@slipway/kubernetes';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { until } from '@slipway/testing';
import pg from 'pg';
import type { Test } from 'uvu';
import { type MachineSettings, type Operator, type OperatorParts, startOperator } from '../../index.js';
import { adminUrl, deleteAndWait, startTestKubernetes, type TestKubernetes } from '../../testing.js';
import { PROJECTS, plainText, projectPath, type Secret, secretData, secretsPath } from './resources.js';

export interface ReconcilerDeps {
  kubernetes: TestKubernetes;
  postgres: TestPostgres;
  dataplane: Server;
  operator: Operator;
  /** The response of the data plane. */
  answer: {
    status: number;
    to?: ((request: IncomingMessage) => number) | undefined;
    headers?: Record<string, string>;
  };
}

/** Prefix of all names that this process creates. */
export const run = `t${process.pid.toString(36)}`;
const made = new Set<string>();

export function withOperator(test: Test<ReconcilerDeps>, parts: OperatorParts = {}): void {
  test.before(async (context) => {
    context.kubernetes = await startTestKubernetes();
    context.postgres = await startTestPostgres();
    context.answer = { status: 200 };
    context.dataplane = createServer((request, response) => {
      const status = context.answer.to?.(request) ?? context.answer.status;
      response.writeHead(status, context.answer.headers).end('{}');
    });
    await new Promise<void>((resolve) => context.dataplane.listen(0, '127.0.0.1', resolve));
    context.operator = await startTestOperator(context, { parts });
  });

  test.after(async ({ kubernetes, postgres, dataplane, operator }) => {
    await Promise.all([...made].map((ref) => deleteAndWait(kubernetes.client, projectPath(ref))));
    await operator.close();
    dataplane.closeAllConnections();
    dataplane.close();
    await kubernetes.close();
    await postgres.close();
  });
}

/** Starts an operator and waits until it leads. */
export async function startTestOperator(
  context: Omit<ReconcilerDeps, 'operator'>,
  { settings = {}, parts = {} }: { settings?: Partial<MachineSettings>; parts?: OperatorParts } = {},
): Promise<Operator> {
  const ofTest: MachineSettings = {
    kubeconfig: context.kubernetes.kubeconfig,
    publicUrl: 'http://localhost:4000',
    listen: '127.0.0.1:0',
    adminDatabaseUrl: adminUrl(context.postgres),
    databasePublicAddress: `127.0.0.1:${context.postgres.port}`,
    dataplaneUrl: `http://127.0.0.1:${(context.dataplane.address() as AddressInfo).port}`,
    logLevel: 'silent',
    ...settings,
  };
  const operator = await startOperator(ofTest, parts);
  await operator.leading;
  return operator;
}

export type Wanted = Partial<Project['spec']>;

export async function create({ kubernetes }: ReconcilerDeps, name: string, spec: Wanted = {}): Promise<string> {
  const ref = `${run}-${name}`;
  made.add(ref);
  await kubernetes.client.create<KubeObject & { spec: object }>(PROJECTS, {
    apiVersion: 'slipway.dev/v1alpha1',
    kind: 'Project',
    metadata: { name: ref },
    spec: { owner: `${run}@example.com`, ...spec },
  });
  return ref;
}

export const get = ({ kubernetes }: ReconcilerDeps, ref: string) => kubernetes.client.get<Project>(projectPath(ref));

export const reaches = (deps: ReconcilerDeps, ref: string, wanted: (project: Project) => boolean, what: string) =>
  until(async () => {
    const project = await get(deps, ref);
    return wanted(project) ? project : undefined;
  }, `${ref}: ${what}`);

export const isHealthy = ({ status }: Project) => status?.phase === 'healthy';
export const condition = (project: Project, type: string) =>
  project.status?.conditions?.find((candidate) => candidate.type === type);
/** Returns all written members of a project except its usage: the operator updates that every minute. */
export const written = ({ metadata, spec, status }: Project) => ({
  ...{ annotations: metadata.annotations, finalizers: metadata.finalizers, spec },
  status: {
    ...status,
    usage: undefined,
    conditions: status?.conditions?.filter(({ type }) => type !== 'DatabaseHasRoom'),
  },
});
export const hasReason = (reason: string) => (project: Project) => condition(project, 'Ready')?.reason === reason;

export const secretOf = async ({ kubernetes }: ReconcilerDeps, ref: string, name: string) =>
  plainText(await kubernetes.client.get<Secret>(`${secretsPath(ref)}/${name}`));

export const remove = ({ kubernetes }: ReconcilerDeps, ref: string) =>
  deleteAndWait(kubernetes.client, projectPath(ref));

export async function putSecret(
  { kubernetes }: ReconcilerDeps,
  ref: string,
  name: string,
  values: Record<string, string>,
  labels = {},
) {
  const body = { apiVersion: 'v1', kind: 'Secret', metadata: { name, labels }, data: secretData(values) };
  await kubernetes.client.create<KubeObject>(secretsPath(ref), body).catch(async () => {
    await kubernetes.client.patch(`${secretsPath(ref)}/${name}`, { data: body.data });
  });
}

export async function loginWorks(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url });
  const code = await client.connect().then(
    () => 'in',
    (error) => error.code as string,
  );
  await client.end().catch(() => {});
  return code === 'in';
}

/** Returns the reasons and messages of a Project's Events. */
export async function eventsOf(
  { kubernetes }: ReconcilerDeps,
  ref: string,
): Promise<{ reason: string; message: string }[]> {
  const query = { fieldSelector: `involvedObject.name=${ref}` };
  const path = '/api/v1/namespaces/default/events';
  return (await kubernetes.client.get<{ items: { reason: string; message: string }[] }>(path, query)).items;
}

export const change = ({ kubernetes }: ReconcilerDeps, ref: string, spec: object) =>
  kubernetes.client.patch<Project>(projectPath(ref), { spec });

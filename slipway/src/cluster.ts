/**
 * Applies our CustomResourceDefinitions and our namespace to the Kubernetes API, at each start before the programs, so
 * that a new release applies its own. It sends plain requests: a client library would need more memory than the rest of
 * the supervisor.
 */
import { request } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { customResourceDefinitions, GROUP, VERSION } from '@slipway/crds';
import { SYSTEM_NAMESPACE } from '@slipway/installation';
import { type JsonBound, parseJsonInTurns, readBounded } from '@slipway/program';

/** Limits of a response: a CustomResourceDefinition, or a page of metadata. */
const MOST_OF_RESPONSE: JsonBound = { bytes: 16 * 1024 * 1024, depth: 510, values: 500_000 };
const JSON_TYPE = 'application/json';
/** The objects have only their metadata, because the code of a function may have a megabyte. */
const METADATA_TYPE = `${JSON_TYPE};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1`;

export interface ClusterAccess {
  url: string;
  authority: string;
  token: string;
}

export async function prepareCluster(access: ClusterAccess): Promise<void> {
  const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: SYSTEM_NAMESPACE } };
  await apply(access, `/api/v1/namespaces/${SYSTEM_NAMESPACE}`, namespace);
  for (const crd of customResourceDefinitions) await apply(access, definitionPath(crd.metadata.name), crd);
  for (const crd of customResourceDefinitions) await untilEstablished(access, crd.metadata.name);
}

/** Counts the projects that have edge functions. */
export async function countProjectsWithFunctions(access: ClusterAccess): Promise<number> {
  const namespaces = new Set<string>();
  let next = '';
  do {
    const path = `/apis/${GROUP}/${VERSION}/edgefunctions?limit=100&continue=${encodeURIComponent(next)}`;
    const page = (await call(access, 'GET', path, undefined, METADATA_TYPE)) as FunctionList;
    for (const { metadata } of page.items) namespaces.add(metadata.namespace);
    next = page.metadata.continue ?? '';
  } while (next !== '');
  return namespaces.size;
}

interface FunctionList {
  metadata: { continue?: string };
  items: { metadata: { namespace: string } }[];
}

const definitionPath = (name: string) => `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${name}`;

const apply = (access: ClusterAccess, path: string, object: object) =>
  call(access, 'PATCH', `${path}?fieldManager=slipway&force=true`, object);

/** Waits until the API serves the definition, up to a limit. */
async function untilEstablished(access: ClusterAccess, name: string): Promise<void> {
  for (let waited = 0; waited < 30_000; waited += 50) {
    const { status } = (await call(access, 'GET', definitionPath(name))) as {
      status?: { conditions?: { type: string; status: string }[] };
    };
    if (status?.conditions?.some(({ type, status }) => type === 'Established' && status === 'True')) return;
    await sleep(50);
  }
  throw new Error(`the Kubernetes API does not serve ${name}`);
}

async function call(
  { url, authority, token }: ClusterAccess,
  method: string,
  path: string,
  body?: object,
  accept = JSON_TYPE,
): Promise<unknown> {
  const headers = {
    authorization: `Bearer ${token}`,
    accept,
    ...(body ? { 'content-type': 'application/apply-patch+yaml' } : {}),
  };
  const { status, bytes } = await new Promise<{ status: number; bytes: Buffer }>((resolve, reject) => {
    const sent = request(
      `${url}${path}`,
      { method, headers, ca: authority, agent: false, timeout: 30_000 },
      (response) => {
        readBounded(response, MOST_OF_RESPONSE.bytes).then(
          (read) => resolve({ status: response.statusCode ?? 0, bytes: read }),
          reject,
        );
      },
    );
    sent.on('timeout', () => sent.destroy(new Error(`the Kubernetes API did not answer ${method} ${path}`)));
    sent.on('error', reject).end(body && JSON.stringify(body));
  });
  if (status < 300) return parseJsonInTurns(bytes, MOST_OF_RESPONSE);
  throw new Error(`the Kubernetes API refused ${method} ${path} (${status}): ${bytes.toString().slice(0, 500)}`);
}

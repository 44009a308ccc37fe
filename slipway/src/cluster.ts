/**
 * Applies our resources' definitions and our namespace to the Kubernetes API before the programs start, at each start,
 * so that a new release brings its own. By plain requests: a client library would cost the supervisor more memory than
 * all else.
 */
import { request } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { customResourceDefinitions, SYSTEM_NAMESPACE } from '@slipway/crds';

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

const definitionPath = (name: string) => `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${name}`;

const apply = (access: ClusterAccess, path: string, object: object) =>
  call(access, 'PATCH', `${path}?fieldManager=slipway&force=true`, object);

/** Bounded: a server that takes the definition and never serves it is broken. */
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
): Promise<unknown> {
  const headers = {
    authorization: `Bearer ${token}`,
    accept: 'application/json',
    ...(body ? { 'content-type': 'application/apply-patch+yaml' } : {}),
  };
  const { status, text } = await new Promise<{ status: number; text: string }>((resolve, reject) => {
    const sent = request(
      `${url}${path}`,
      { method, headers, ca: authority, agent: false, timeout: 30_000 },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk) => {
          text += chunk;
        });
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text })).on('error', reject);
      },
    );
    sent.on('timeout', () => sent.destroy(new Error(`the Kubernetes API did not answer ${method} ${path}`)));
    sent.on('error', reject).end(body && JSON.stringify(body));
  });
  if (status < 300) return JSON.parse(text);
  throw new Error(`the Kubernetes API refused ${method} ${path} (${status}): ${text.slice(0, 500)}`);
}

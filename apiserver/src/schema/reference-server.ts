/**
 * For tests only: the real kube-apiserver, if the machine has one, to compare a table of expectations with it.
 * Otherwise `referenceServer()` logs a line and returns undefined.
 */
import { Agent, request } from 'node:https';
import { KubeConfig } from '@kubernetes/client-node';
import { referenceKubeconfig } from '../reference-kubeconfig.js';
import type { JsonObject } from './json-schema.js';

export interface Answer {
  code: number;
  body: JsonObject;
}

export type Call = (method: string, path: string, body?: unknown, contentType?: string) => Promise<Answer>;

export interface ReferenceServer {
  call: Call;
  close(): void;
}

export function referenceServer(): ReferenceServer | undefined {
  const kubeconfig = referenceKubeconfig();
  if (kubeconfig === undefined) return undefined;
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const agent = new Agent({ keepAlive: true });
  return { call: caller(config, agent), close: () => agent.destroy() };
}

function caller(config: KubeConfig, agent: Agent): Call {
  return async (method, path, body, contentType = 'application/json') => {
    const options = { method, headers: { 'content-type': contentType, accept: 'application/json' } };
    await config.applyToHTTPSOptions(options);
    const url = new URL(path, config.getCurrentCluster()?.server);
    return new Promise<Answer>((resolve, reject) => {
      const sent = request(url, { ...options, agent }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk;
        });
        response.on('end', () => resolve({ code: response.statusCode ?? 0, body: readObject(text) }));
      });
      sent.on('error', reject).end(body === undefined ? undefined : JSON.stringify(body));
    });
  };
}

/** Parses a response. A path that is not served yet responds in plain text. */
const readObject = (text: string) => (text.startsWith('{') ? (JSON.parse(text) as JsonObject) : { message: text });

/** Makes a CustomResourceDefinition and waits until its resources are served. */
export async function establish(call: Call, crd: JsonObject): Promise<void> {
  const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  const { code, body } = await call('POST', path, crd);
  if (code >= 400) throw new Error(`can't make the definition: ${JSON.stringify(body)}`);
  const { group, names, versions } = crd.spec as {
    group: string;
    names: { plural: string };
    versions: { name: string }[];
  };
  const served = `/apis/${group}/${versions[0]?.name}/${names.plural}`;
  const deadline = Date.now() + 30_000;
  while ((await call('GET', served)).code !== 200) {
    if (Date.now() > deadline) throw new Error(`${served} is not served`);
  }
}

/** For tests: a real Kubernetes API, behind a proxy that can fail as networks and servers do. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { CoreV1Api, CustomObjectsApi, KubeConfig } from '@kubernetes/client-node';
import { startTestApiServer } from '@slipway/apiserver';
import { customResourceDefinitions } from '@slipway/crds';

export interface TestKubernetes {
  kubeConfig: KubeConfig;
  /** Path of a file that says the same. */
  file: string;
  core: CoreV1Api;
  custom: CustomObjectsApi;
  close(): Promise<void>;
}

/**
 * SLIPWAY_TEST_KUBECONFIG names a real cluster, with our resources defined, to run against instead of our own API
 * server.
 */
export async function startTestKubernetes(): Promise<TestKubernetes> {
  const given = process.env.SLIPWAY_TEST_KUBECONFIG;
  const { kubeconfig: file, close } = given
    ? { kubeconfig: given, close: async () => undefined }
    : await startTestApiServer({ crds: customResourceDefinitions });
  const kubeConfig = new KubeConfig();
  kubeConfig.loadFromFile(file);
  const core = kubeConfig.makeApiClient(CoreV1Api);
  const custom = kubeConfig.makeApiClient(CustomObjectsApi);
  return { kubeConfig, file, core, custom, close };
}

export interface FailingProxy {
  /** Reaches the API through the proxy. */
  kubeConfig: KubeConfig;
  /** Cuts all connections and takes no more. */
  cut(): void;
  restore(): void;
  /** Answers the next watch as a server does that has forgotten the version it was asked to resume from. */
  forgetVersion(): void;
  /** Watches that were begun, by their paths with the query. */
  watches: string[];
  lists: string[];
  close(): Promise<void>;
}

export async function startFailingProxy(target: KubeConfig): Promise<FailingProxy> {
  const server = target.getCurrentCluster()?.server as string;
  const credentials: RequestOptions = {};
  await target.applyToHTTPSOptions(credentials);
  const sockets = new Set<Socket>();
  let isCut = false;
  let forgetful = false;
  const watches: string[] = [];
  const lists: string[] = [];

  const proxy = createServer((incoming, outgoing) => {
    const url = incoming.url as string;
    const isWatch = url.includes('watch=true');
    (isWatch ? watches : lists).push(url);
    if (isWatch && forgetful) {
      forgetful = false;
      outgoing.writeHead(200, { 'content-type': 'application/json' });
      outgoing.end(`${JSON.stringify({ type: 'ERROR', object: { kind: 'Status', code: 410, message: 'too old' } })}\n`);
      return;
    }
    forward(new URL(url, server), credentials, incoming, outgoing);
  });
  proxy.on('connection', (socket: Socket) => {
    if (isCut) socket.destroy();
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const kubeConfig = new KubeConfig();
  const cluster = { name: 'proxy', server: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` };
  kubeConfig.loadFromClusterAndUser({ ...cluster, skipTLSVerify: true }, { name: 'proxy' });

  const dropAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    kubeConfig,
    watches,
    lists,
    cut: () => {
      isCut = true;
      dropAll();
    },
    restore: () => {
      isCut = false;
    },
    forgetVersion: () => {
      forgetful = true;
      dropAll();
    },
    close: async () => {
      dropAll();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}

function forward(url: URL, credentials: RequestOptions, incoming: IncomingMessage, outgoing: ServerResponse): void {
  const { host: _, ...headers } = incoming.headers;
  const upstream = httpsRequest(url, {
    ...credentials,
    method: incoming.method,
    headers: { ...headers, ...(credentials.headers as object) },
  });
  upstream.on('response', (answer) => {
    outgoing.writeHead(answer.statusCode as number, answer.headers);
    outgoing.flushHeaders();
    answer.pipe(outgoing);
    answer.on('error', () => outgoing.destroy());
  });
  upstream.on('error', () => outgoing.destroy());
  outgoing.on('close', () => upstream.destroy());
  incoming.pipe(upstream);
}

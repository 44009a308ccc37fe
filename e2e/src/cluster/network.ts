/**
 * How tests reach a cluster's addresses. Names that end in .test or .localhost are in no DNS: they are this machine,
 * where the cluster's Ingress listens. A Service's name is reached by a port forward, as an administrator would.
 */
import { type LookupAddress, lookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import type { KubeConfig } from '@kubernetes/client-node';
import { Agent, fetch, WebSocket } from 'undici';
import { loginOf, type Network } from '../network.js';
import { Forwards } from './forwards.js';

const LOOPBACK: LookupAddress = { address: '127.0.0.1', family: 4 };
const isHere = (hostname: string) => /\.(test|localhost)$/.test(hostname);

const lookupHere: LookupFunction = (hostname, options, callback) => {
  if (!isHere(hostname)) lookup(hostname, options, callback);
  else if (options.all) callback(null, [LOOPBACK]);
  else callback(null, LOOPBACK.address, LOOPBACK.family);
};

export function clusterNetwork(config: KubeConfig): Network & { close(): Promise<void> } {
  const dispatcher = new Agent({ connect: { lookup: lookupHere } });
  const forwards = new Forwards(config);
  class ClusterWebSocket extends WebSocket {
    constructor(url: string | URL, protocols?: string | string[]) {
      super(url, { dispatcher, ...(protocols ? { protocols } : {}) });
    }
  }
  return {
    // undici's own, as Node's takes no dispatcher of another version; they differ in types alone.
    fetch: (async (input: string | URL, init?: RequestInit) =>
      fetch(input, { ...(await withEncodedForm(init)), dispatcher } as object)) as unknown as typeof globalThis.fetch,
    WebSocket: ClusterWebSocket as unknown as typeof globalThis.WebSocket,
    postgres: async (url) => {
      const login = loginOf(url);
      const [, name, namespace] = /^([^.]+)\.([^.]+)\.svc(\.|$)/.exec(login.host) ?? [];
      if (!name || !namespace) return login;
      return { ...login, host: '127.0.0.1', port: await forwards.to(namespace, name, login.port) };
    },
    close: async () => {
      await forwards.close();
      await dispatcher.close();
    },
  };
}

/** A form is Node's, which undici's own fetch would send as the words '[object FormData]'. */
async function withEncodedForm(init: RequestInit = {}): Promise<RequestInit> {
  if (!(init.body instanceof FormData)) return init;
  const form = new Response(init.body);
  const headers = new Headers(init.headers);
  headers.set('content-type', form.headers.get('content-type') as string);
  return { ...init, headers: [...headers], body: await form.arrayBuffer() };
}

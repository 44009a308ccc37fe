/**
 * Network access of tests to a cluster. Names that end in .test or .localhost are in no DNS. Tests connect to this
 * machine instead, where the cluster's Ingress listens. They connect to a Service's name by a port forward, like an
 * administrator.
 */
import { type LookupAddress, lookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { Agent, fetch, WebSocket } from 'undici';
import { loginOf, type Network } from '../network.js';
import { Forwards } from './forwards.js';

const LOOPBACK: LookupAddress = { address: '127.0.0.1', family: 4 };
export const isThisMachine = (hostname: string) => /(^localhost|\.test|\.localhost)$/.test(hostname);

const lookupHere: LookupFunction = (hostname, options, callback) => {
  if (!isThisMachine(hostname)) lookup(hostname, options, callback);
  else if (options.all) callback(null, [LOOPBACK]);
  else callback(null, LOOPBACK.address, LOOPBACK.family);
};

export function clusterNetwork(kubeconfig: string): Network & { close(): Promise<void> } {
  const dispatcher = new Agent({ connect: { lookup: lookupHere } });
  const forwards = new Forwards(kubeconfig);
  class ClusterWebSocket extends WebSocket {
    constructor(url: string | URL, protocols?: string | string[]) {
      super(url, { dispatcher, ...(protocols ? { protocols } : {}) });
    }
  }
  return {
    // undici's own fetch, because Node's fetch accepts no dispatcher of another version. Only their types differ.
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

/** Encodes a form of Node, which undici's fetch would send as the text '[object FormData]'. */
async function withEncodedForm(init: RequestInit = {}): Promise<RequestInit> {
  if (!(init.body instanceof FormData)) return init;
  const form = new Response(init.body);
  const headers = new Headers(init.headers);
  headers.set('content-type', form.headers.get('content-type') as string);
  return { ...init, headers: [...headers], body: await form.arrayBuffer() };
}

/**
 * Reads the address and the credentials for the Kubernetes API, from a kubeconfig or from the service account of the
 * pod that this program runs in.
 *
 * Tokens, passwords and certificates are read here. Other credentials, such as plugins, are read by client-node. It is
 * loaded only for them, as its models cost each program 0.8 s of processor time and 60 MB.
 */
import { readFile } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import path from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import { parse } from 'yaml';

export interface KubeConfig {
  /** URL of the API server. */
  server: string;
  tls: Pick<ConnectionOptions, 'ca' | 'cert' | 'key' | 'servername' | 'rejectUnauthorized'>;
  /** URL of an HTTP proxy. */
  proxy?: string;
  /**
   * Returns the headers that authenticate a request. A token in a file is read again at each call, as the kubelet
   * renews it.
   */
  headers(): Promise<Record<string, string>>;
}

type Fields = Record<string, unknown>;
type Named<Kind extends string> = { name: string } & Record<Kind, Fields | null>;

interface Kubeconfig {
  'current-context'?: string;
  contexts?: Named<'context'>[];
  clusters?: Named<'cluster'>[];
  users?: Named<'user'>[];
}

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';
/** Fields of a user that are read here. Any other field needs client-node. */
const SIMPLE = [
  ...['token', 'tokenFile', 'username', 'password'],
  ...['client-certificate', 'client-certificate-data', 'client-key', 'client-key-data'],
];

/**
 * Reads the kubeconfig at the path `file`. Undefined: reads the pod's service account. Throws if neither can be read.
 */
export async function loadKubeConfig(file: string | undefined): Promise<KubeConfig> {
  if (file === undefined) return ofPod();
  const { cluster, user } = currentOf(parse(await readFile(file, 'utf8')) as Kubeconfig | null);
  const server = text(cluster.server) as string;
  const isInsecure = cluster['insecure-skip-tls-verify'] === true;
  if (server.startsWith('http:') && !isInsecure)
    throw new Error('the kubeconfig names a server without TLS: use https, or set insecure-skip-tls-verify');
  const proxy = text(cluster['proxy-url']);
  if (proxy?.startsWith('socks'))
    throw new Error('the kubeconfig names a SOCKS proxy, which is not supported: use an HTTP proxy');
  const needsMore = Object.keys(user).some((field) => !SIMPLE.includes(field));
  const folder = path.dirname(file);
  const { tls, headers } = needsMore ? await byClientNode(file) : await simple(user, folder);
  const ca = await content(cluster, 'certificate-authority', folder);
  const servername = text(cluster['tls-server-name']);
  return {
    server,
    tls: {
      ...tls,
      ...(ca && { ca }),
      ...(servername && { servername }),
      ...(isInsecure && { rejectUnauthorized: false }),
    },
    ...(proxy && { proxy }),
    headers,
  };
}

async function ofPod(): Promise<KubeConfig> {
  const { KUBERNETES_SERVICE_HOST: host = '', KUBERNETES_SERVICE_PORT: port } = process.env;
  const ca = await readFile(`${SERVICE_ACCOUNT}/ca.crt`, 'utf8');
  return {
    server: `https://${isIPv6(host) ? `[${host}]` : host}:${port}`,
    tls: { ca },
    headers: () => bearerOf(`${SERVICE_ACCOUNT}/token`),
  };
}

function currentOf(document: Kubeconfig | null): { cluster: Fields; user: Fields } {
  const { contexts, clusters, users, 'current-context': current } = document ?? {};
  const context = contexts?.find(({ name }) => name === current)?.context;
  const cluster = clusters?.find(({ name }) => name === context?.cluster)?.cluster;
  if (!cluster?.server) throw new Error('KUBECONFIG names no cluster: set its current-context');
  return { cluster, user: users?.find(({ name }) => name === context?.user)?.user ?? {} };
}

async function simple(user: Fields, folder: string): Promise<Pick<KubeConfig, 'tls' | 'headers'>> {
  const [cert, key] = await Promise.all(
    ['client-certificate', 'client-key'].map((field) => content(user, field, folder)),
  );
  return { tls: { ...(cert && { cert }), ...(key && { key }) }, headers: headersOf(user, folder) };
}

function headersOf(user: Fields, folder: string): KubeConfig['headers'] {
  const [token, tokenFile, username] = ['token', 'tokenFile', 'username'].map((field) => text(user[field]));
  // The same order as kubectl's.
  if (tokenFile) return () => bearerOf(path.resolve(folder, tokenFile));
  if (token) return async () => ({ authorization: `Bearer ${token}` });
  if (!username) return async () => ({});
  const basic = Buffer.from(`${username}:${text(user.password) ?? ''}`).toString('base64');
  return async () => ({ authorization: `Basic ${basic}` });
}

async function bearerOf(file: string): Promise<Record<string, string>> {
  return { authorization: `Bearer ${(await readFile(file, 'utf8')).trim()}` };
}

/**
 * Reads the credentials by client-node: a plugin of the user may return a client certificate, and a token that expires.
 */
async function byClientNode(file: string): Promise<Pick<KubeConfig, 'tls' | 'headers'>> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  config.loadFromFile(file);
  const read = async () => {
    const settings: KubeConfig['tls'] & { headers?: Record<string, string> } = {};
    await config.applyToHTTPSOptions(settings);
    return settings;
  };
  const { cert, key } = await read();
  return {
    tls: { ...(cert && { cert }), ...(key && { key }) },
    headers: async () => ({ ...(await read()).headers }),
  };
}

/** Returns the decoded member `<name>-data`, or else the content of the file that the member `<name>` names. */
async function content(from: Fields, name: string, folder: string): Promise<string | undefined> {
  const [data, file] = [text(from[`${name}-data`]), text(from[name])];
  if (data) return Buffer.from(data, 'base64').toString();
  return file ? readFile(path.resolve(folder, file), 'utf8') : undefined;
}

const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined);

/**
 * Probes whether a new container serves, and explains why it does not. In: its address, and a path of its owner. Out:
 * nothing if it is healthy, or the reason for the owner.
 */
import { connect } from 'node:net';
import { Agent } from 'undici';

const TIMEOUT_MS = 2_000;

export interface ContainerAddress {
  host: string;
  port: number;
}

const agent = new Agent({ connect: { timeout: TIMEOUT_MS }, headersTimeout: TIMEOUT_MS, bodyTimeout: TIMEOUT_MS });

/** Undefined: the container is healthy. */
export const whyUnhealthy = (address: ContainerAddress, path: string | undefined): Promise<string | undefined> =>
  path === undefined ? whyRefused(address) : whyFailed(address, path);

function whyRefused({ host, port }: ContainerAddress): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: TIMEOUT_MS });
    const end = (why: string | undefined) => {
      socket.destroy();
      resolve(why);
    };
    socket.once('connect', () => end(undefined));
    socket.once('timeout', () => end(`port ${port} accepts no connection`));
    socket.once('error', () => end(`port ${port} accepts no connection`));
  });
}

async function whyFailed({ host, port }: ContainerAddress, path: string): Promise<string | undefined> {
  try {
    const headers = { 'user-agent': 'slipway-health-check' };
    const { statusCode, body } = await agent.request({
      origin: `http://${host}:${port}`,
      path,
      method: 'GET',
      reset: true,
      headers,
    });
    body.destroy().on('error', () => undefined);
    return statusCode < 400 ? undefined : `GET ${path} responds with the status ${statusCode}`;
  } catch (error) {
    const { code = 'no response' } = error as { code?: string };
    return code === 'ECONNREFUSED' ? `port ${port} accepts no connection` : `GET ${path} fails (${code})`;
  }
}

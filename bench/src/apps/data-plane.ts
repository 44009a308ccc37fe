/**
 * A data plane with one app, as the operator would have made it: a real program and a Kubernetes API, without an
 * operator.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { GROUP, VERSION } from '@slipway/crds';
import { DATA_PLANE_NODE_FLAGS } from '@slipway/installation';
import { startTestKubernetes } from '@slipway/kubernetes/testing.js';
import { freePort, until } from '@slipway/testing';

const PROJECTS = `/apis/${GROUP}/${VERSION}/projects`;
const REF = 'benched';

export interface DataPlane {
  pid: number;
  port: number;
  host: string;
  close(): Promise<void>;
}

/** `upstream` is the port of the app's container. */
export async function startDataPlane(upstream: number, searchPath: string): Promise<DataPlane> {
  const kubernetes = await startTestKubernetes();
  const { client } = kubernetes;
  const [apiVersion, metadata] = [`${GROUP}/${VERSION}`, { name: REF }];
  const spec = { owner: 'al@example.com', type: 'app' };
  await client.create<object>(PROJECTS, { apiVersion, kind: 'Project', metadata, spec });
  await client.patch(`${PROJECTS}/${REF}/status`, { status: { upstream: `127.0.0.1:${upstream}` } });
  const port = await freePort();
  const program = fork(fileURLToPath(new URL('./main.js', import.meta.resolve('@slipway/dataplane'))), {
    stdio: ['ignore', 2, 2, 'ipc'],
    execArgv: [...DATA_PLANE_NODE_FLAGS],
    env: {
      PATH: searchPath,
      KUBECONFIG: kubernetes.kubeconfig,
      SLIPWAY_PUBLIC_URL: `http://localhost:${port}`,
      SLIPWAY_LISTEN: `127.0.0.1:${port}`,
      SLIPWAY_API_SOCKET: '/nonexistent/api.sock',
      SLIPWAY_LOG_LEVEL: 'error',
      // All requests come from one address.
      SLIPWAY_RATE_LIMIT: '0',
    },
  });
  const close = async () => {
    const ended = once(program, 'exit');
    program.kill();
    await ended;
    await kubernetes.close();
  };
  const isReady = () =>
    fetch(`http://127.0.0.1:${port}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
  await until(isReady, 'the data plane to be ready', 20_000);
  return { pid: program.pid as number, port, host: `${REF}.localhost:${port}`, close };
}

/**
 * A shell in a pod, as somebody has who has taken it over: which of some addresses it can open a connection to. In: the
 * pod and the addresses. Out: what came of each attempt. Our images have Node; Postgres' has bash.
 */
import { kubectl } from '../kubectl.js';

export interface Address {
  host: string;
  port: number;
}

export interface Pod {
  namespace: string;
  name: string;
  container?: string | undefined;
  speaks: 'node' | 'bash';
}

/** `silence`: neither an answer nor a refusal; `refused` came from the other side, so it was reached. */
export type Outcome = 'connected' | 'refused' | 'silence';

/** All attempts are made at once, so it is spent once. */
const PATIENCE_SECONDS = 10;

const IN_NODE = `
const attempt = ([host, port]) => new Promise((resolve) => {
  const socket = require('node:net').connect({ host, port: Number(port) });
  const end = (outcome) => { socket.destroy(); resolve(outcome); };
  socket.setTimeout(${PATIENCE_SECONDS * 1000}, () => end('silence'));
  socket.once('connect', () => end('connected'));
  socket.once('error', ({ code }) => end(code === 'ECONNREFUSED' ? 'refused' : 'silence'));
});
const addresses = process.argv.slice(1).map((text) => text.split(' '));
Promise.all(addresses.map(attempt)).then((outcomes) => console.log(outcomes.map((o, i) => i + ' ' + o).join('\\n')));
`;

const IN_BASH = `
attempt() {
  said=$(timeout ${PATIENCE_SECONDS} bash -c "exec 3<>/dev/tcp/$2/$3" 2>&1) && echo "$1 connected" && return
  case $said in *refused*) echo "$1 refused" ;; *) echo "$1 silence" ;; esac
}
at=0
for address; do attempt $at $address & at=$((at + 1)); done
wait
`;

/** Returns the outcome for each address, in their order. */
export async function attempts(kubeconfig: string, pod: Pod, addresses: readonly Address[]): Promise<Outcome[]> {
  const { namespace, name, container, speaks } = pod;
  const asked = addresses.map(({ host, port }) => `${host} ${port}`);
  const command = speaks === 'node' ? ['node', '-e', IN_NODE, ...asked] : ['bash', '-c', IN_BASH, 'bash', ...asked];
  const inContainer = container === undefined ? [] : ['-c', container];
  const said = await kubectl(kubeconfig, ['exec', '-n', namespace, name, ...inContainer, '--', ...command]);
  const outcomes = new Map(
    said
      .trim()
      .split('\n')
      .map((line) => line.split(' ') as [string, Outcome]),
  );
  return addresses.map((_, at) => {
    const outcome = outcomes.get(String(at));
    if (outcome === undefined) throw new Error(`${namespace}/${name} did not say what came of address ${at}: ${said}`);
    return outcome;
  });
}

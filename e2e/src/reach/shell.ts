/**
 * Runs a shell in a pod, like an attacker who has taken it over, and tries to connect to addresses. In: the pod and the
 * addresses. Out: the outcome of each attempt. Our images have Node; Postgres' image has bash.
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

/** `silence`: no response and no refusal. `refused`: the other side was reached and refused. */
export type Outcome = 'connected' | 'refused' | 'silence';

/** Timeout in seconds of all attempts together, because they run at once. */
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
  output=$(timeout ${PATIENCE_SECONDS} bash -c "exec 3<>/dev/tcp/$2/$3" 2>&1) && echo "$1 connected" && return
  case $output in *refused*) echo "$1 refused" ;; *) echo "$1 silence" ;; esac
}
at=0
for address; do attempt $at $address & at=$((at + 1)); done
wait
`;

/** Returns the outcome for each address, in order. */
export async function attempts(kubeconfig: string, pod: Pod, addresses: readonly Address[]): Promise<Outcome[]> {
  const { namespace, name, container, speaks } = pod;
  const targets = addresses.map(({ host, port }) => `${host} ${port}`);
  const command = speaks === 'node' ? ['node', '-e', IN_NODE, ...targets] : ['bash', '-c', IN_BASH, 'bash', ...targets];
  const inContainer = container === undefined ? [] : ['-c', container];
  const output = await kubectl(kubeconfig, ['exec', '-n', namespace, name, ...inContainer, '--', ...command]);
  const outcomes = new Map(
    output
      .trim()
      .split('\n')
      .map((line) => line.split(' ') as [string, Outcome]),
  );
  return addresses.map((_, at) => {
    const outcome = outcomes.get(String(at));
    if (outcome === undefined) throw new Error(`${namespace}/${name} reported no outcome for address ${at}: ${output}`);
    return outcome;
  });
}

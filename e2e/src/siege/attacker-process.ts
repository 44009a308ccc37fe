/**
 * An attack in a process of its own, as attackers' programs run on machines of their own: it takes no time from the
 * process that measures, and gives way to the platform's. In: the attacker and the attack. Ends with the signal; a
 * process that ends before that is an error.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { constants, setPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import { KubeConfig } from '@kubernetes/client-node';
import { clusterNetwork } from '../cluster/network.js';
import { Management, type ProjectView } from '../management.js';
import { directly } from '../network.js';
import type { Platform } from '../platform.js';
import { ATTACKS, type Attack, type Attacker } from './attacks.js';

/** An attacker and an attack, as one process tells another. */
interface Order {
  attack: string;
  url: string;
  kubeconfig: string;
  isOnCluster: boolean;
  email: string;
  token: string;
  project: ProjectView;
}

const THIS = fileURLToPath(import.meta.url);

export async function attackFromProcess(attack: Attack, attacker: Attacker, signal: AbortSignal): Promise<void> {
  const { platform, person, project } = attacker;
  const child = fork(THIS, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  const ended = once(child, 'exit');
  setPriority(child.pid as number, constants.priority.PRIORITY_LOW);
  const order: Order = {
    attack: attack.name,
    url: platform.url,
    kubeconfig: platform.kubeconfig,
    isOnCluster: platform.network !== directly,
    email: person.email,
    token: person.token,
    project,
  };
  child.send(order);
  signal.addEventListener('abort', () => child.kill('SIGKILL'), { once: true });
  await ended;
  if (!signal.aborted) throw new Error(`the attack ended by itself: ${attack.name}`);
}

async function obey({ attack, url, kubeconfig, isOnCluster, email, token, project }: Order): Promise<void> {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const admin: Platform['admin'] = () => Promise.reject(new Error('an attacker is no administrator'));
  const platform = { url, kubeconfig, admin, network: isOnCluster ? clusterNetwork(config) : directly };
  const person = Management.withToken(platform, email, token);
  const never = new AbortController().signal;
  await ATTACKS.find(({ name }) => name === attack)?.run({ platform, person, project }, never);
}

if (process.argv[1] === THIS) {
  // With its parent it ends too.
  process.once('disconnect', () => process.exit());
  process.once('message', (order: Order) => void obey(order));
}

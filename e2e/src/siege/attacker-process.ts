/**
 * Runs an attack in a separate process. So the attack takes no time from the process that measures, and the platform's
 * processes have precedence over it. In: the attacker and the attack. The process ends with the signal; if it ends
 * earlier, this is an error.
 */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { constants, setPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import { clusterNetwork } from '../cluster/network.js';
import { Management, type ProjectView } from '../management.js';
import { directly } from '../network.js';
import type { Platform } from '../platform.js';
import type { Attack, Attacker } from './attack.js';
import { attackNamed } from './attacks.js';
import type { Service } from './victim.js';

/** The message with an attacker and an attack between the two processes. */
interface Order {
  attack: string;
  url: string;
  kubeconfig: string;
  isOnCluster: boolean;
  email: string;
  token: string;
  project: ProjectView;
  services: readonly Service[];
}

const THIS = fileURLToPath(import.meta.url);

export async function attackFromProcess(attack: Attack, attacker: Attacker, signal: AbortSignal): Promise<void> {
  const { platform, person, project, services } = attacker;
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
    services,
  };
  child.send(order);
  signal.addEventListener('abort', () => child.kill('SIGKILL'), { once: true });
  await ended;
  if (!signal.aborted) throw new Error(`the attack ended by itself: ${attack.name}`);
}

async function obey(order: Order): Promise<void> {
  const { attack, url, kubeconfig, isOnCluster, email, token, project, services } = order;
  const admin: Platform['admin'] = () => Promise.reject(new Error('an attacker is no administrator'));
  const platform = {
    url,
    kubeconfig,
    admin,
    network: isOnCluster ? clusterNetwork(kubeconfig) : directly,
  };
  const person = Management.withToken(platform, email, token);
  const never = new AbortController().signal;
  await attackNamed(attack)?.run({ platform, person, project, services }, never);
}

if (process.argv[1] === THIS) {
  // Ends together with its parent.
  process.once('disconnect', () => process.exit());
  process.once('message', (order: Order) => void obey(order));
}

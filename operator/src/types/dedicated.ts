/** The type of projects with a virtual machine of their own, which runs their Postgres and all services. */
import { type Context, engineProject, isToBeRetained, ready } from '../controllers/project/context.js';
import type { ProjectType } from '../controllers/project/project-type.js';
import { CREDENTIALS_CURRENT } from '../controllers/project/rotation.js';
import { isMaintenance } from '../controllers/project/status.js';
import { ensureDatabase, ensureLogin } from '../controllers/project/steps/database.js';
import { finishRotation } from '../controllers/project/steps/finish-rotation.js';
import { ensureKeys } from '../controllers/project/steps/keys.js';
import { configureMachine, ensureMachine } from '../controllers/project/steps/machine.js';
import { ensureServices, suspendedServices } from '../controllers/project/steps/services.js';
import { shared } from './shared.js';

/** True for a project that was healthy once. */
const hasServed = ({ project }: Context) => project.status?.url !== undefined;

export const dedicated: ProjectType = {
  conditions: ['IsolationReady', 'KeysReady', 'MachineReady', 'MachineConfigured', 'DatabaseReady', 'ServicesReady'],
  paused: new Set(['MachineReady', 'MachineBooted', 'DatabaseReady', 'ServicesReady']),

  async provision(context, stages, shown) {
    const { isolation, machines, services } = context.deps.capabilities;
    // The type is not available without them.
    if (!machines) return;
    const project = engineProject(context);
    const made = await stages.run({
      isolation: { condition: 'IsolationReady', run: () => isolation.ensure(project, undefined) },
      keys: { condition: 'KeysReady', run: () => ensureKeys(context) },
    });
    if (!made) return;
    // A machine that serves continues to do so while it is looked at, and while the operator can't reach it.
    const machine = await ensureMachine(context, machines, shown);
    const isMaintained = isMaintenance(machine.outcome) && !project.suspended;
    const advisory = hasServed(context) && !isMaintained ? ({ advisory: true } as const) : {};
    const isInstalled = await stages.run({
      machine: { condition: 'MachineReady', ...advisory, run: async () => machine },
    });
    if (project.suspended) {
      shown.services = suspendedServices();
      return;
    }
    // The message of the work explains why nothing responds.
    if (isMaintained) return;
    const isConfigured =
      isInstalled &&
      (await stages.run({ login: { condition: 'Ready', run: () => ensureLogin(context, machines.databases) } })) &&
      (await stages.run({
        configuration: { condition: 'Ready', ...advisory, run: () => configureMachine(context, machines) },
      })) &&
      (await stages.run({
        database: { condition: 'DatabaseReady', ...advisory, run: () => ensureDatabase(context, machines.databases) },
      }));
    if (!isConfigured && !hasServed(context)) return;
    const { keys } = made;
    const isServed = await stages.run({
      services: {
        condition: 'ServicesReady',
        run: () => ensureServices(context, services, { anonKey: keys.anonKey, shown }),
      },
    });
    if (!isServed) {
      // The state of the machine explains why services do not answer.
      if (machine.outcome.state === 'failed') {
        await stages.run({ cause: { condition: 'Ready', run: async () => machine.outcome } });
      }
      return;
    }
    await stages.run({
      rotation: {
        condition: CREDENTIALS_CURRENT,
        advisory: true,
        run: () => finishRotation(context, services, keys.nextJwtSecret),
      },
    });
  },

  url: ({ projectUrl }, ref) => projectUrl(ref),

  healthy: shared.healthy,

  async remove(context) {
    const { machines } = context.deps.capabilities;
    return machines ? machines.remove(engineProject(context)) : ready;
  },

  removing: (project) =>
    isToBeRetained(project) ? 'keeping a snapshot of the machine' : 'deleting the machine at the provider',
};

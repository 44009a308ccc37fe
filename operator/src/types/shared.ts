/**
 * The type of projects with a Postgres and services. Depending on their plan, they share the Postgres or have their
 * own.
 */
import { PROJECT_SERVICES } from '@slipway/crds';
import { engineProject, isToBeRetained } from '../controllers/project/context.js';
import type { ProjectType } from '../controllers/project/project-type.js';
import { CREDENTIALS_CURRENT } from '../controllers/project/rotation.js';
import { ADDRESSES_ALLOWED, checkAddresses } from '../controllers/project/steps/addresses.js';
import { databaseClaim, ensureDatabase } from '../controllers/project/steps/database.js';
import { finishRotation } from '../controllers/project/steps/finish-rotation.js';
import { ensureKeys } from '../controllers/project/steps/keys.js';
import { ensureServices } from '../controllers/project/steps/services.js';
import { DATABASE_HAS_ROOM, reportUsage } from '../controllers/project/steps/usage.js';

export const shared: ProjectType = {
  conditions: ['IsolationReady', 'KeysReady', 'DatabaseReady', 'ServicesReady'],
  paused: new Set(['DatabaseReady', 'ServicesReady', 'AuthReady', 'RestReady']),

  async provision(context, stages, shown) {
    const { isolation, databases, services } = context.deps.capabilities;
    const project = engineProject(context);
    const made = await stages.run({
      isolation: {
        condition: 'IsolationReady',
        run: () => isolation.ensure(project, databases.addressOf(project).host),
      },
      keys: { condition: 'KeysReady', run: () => ensureKeys(context) },
      database: { condition: 'DatabaseReady', run: () => ensureDatabase(context, databases) },
    });
    if (!made) return;
    const { keys } = made;
    const served = await stages.run({
      services: {
        condition: 'ServicesReady',
        run: () => ensureServices(context, services, { anonKey: keys.anonKey, shown }),
      },
    });
    if (!served) return;
    await stages.run({
      rotation: {
        condition: CREDENTIALS_CURRENT,
        advisory: true,
        run: () => finishRotation(context, services, keys.nextJwtSecret),
      },
      usage: {
        condition: DATABASE_HAS_ROOM,
        advisory: true,
        run: () => reportUsage(context, { serviceRoleKey: keys.serviceRoleKey, shown }),
      },
      addresses: { condition: ADDRESSES_ALLOWED, advisory: true, run: () => checkAddresses(context) },
    });
  },

  url: ({ projectUrl }, ref) => projectUrl(ref),

  healthy(services = {}) {
    const closed = PROJECT_SERVICES.filter((name) => services[name] && !services[name].up);
    return closed.length === 0 ? 'all services answer' : `the open services answer; closed: ${closed.join(', ')}`;
  },

  async remove(context) {
    const { services, databases } = context.deps.capabilities;
    const project = engineProject(context);
    await services.remove(project);
    return databases.remove({ ...project, ...(await databaseClaim(context)) });
  },

  removing: (project) =>
    isToBeRetained(project) ? 'closing the database, which is retained' : 'removing the database',
};

/** The project's database: passwords into a Secret first, then the database that takes them. */
import { randomBytes } from 'node:crypto';
import { ownerRole, SECRETS } from '@slipway/crds';
import type { DatabaseAddress } from '../../engines/engine.js';
import { isTrue } from '../../runtime/conditions.js';
import { type Context, engineProject, type StepOutcome } from './context.js';
import { ensureSecret, type Values } from './secrets.js';

const { database: names } = SECRETS;
const newPassword = () => randomBytes(24).toString('base64url');

export async function ensureDatabase(context: Context): Promise<StepOutcome> {
  const { world, ref, project } = context;
  const address = world.engine.databaseAddress(engineProject(context));
  const values = await ensureSecret(context, names.name, (held) => wantedLogin(ref, address, held));
  return world.engine.ensureDatabase({
    project: engineProject(context),
    passwords: {
      owner: values[names.ownerPassword] as string,
      authenticator: values[names.authenticatorPassword] as string,
      authAdmin: values[names.authAdminPassword] as string,
    },
    existed: isTrue(project.status?.conditions, 'DatabaseReady'),
  });
}

function wantedLogin(ref: string, address: DatabaseAddress, held: Values): Values {
  const ownerPassword = held[names.ownerPassword] || newPassword();
  return {
    [names.host]: address.host,
    [names.port]: String(address.port),
    [names.database]: address.database,
    [names.ownerPassword]: ownerPassword,
    [names.authenticatorPassword]: held[names.authenticatorPassword] || newPassword(),
    [names.authAdminPassword]: held[names.authAdminPassword] || newPassword(),
    [names.url]: `postgresql://${ownerRole(ref)}:${encodeURIComponent(ownerPassword)}@${address.publicAddress}/${address.database}`,
  };
}

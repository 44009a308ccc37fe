/** JSON schemas of the routes for the machine of a dedicated project. */
import { MACHINE_UNITS, RESTARTABLE_UNITS, UNIT_STATUSES } from '@slipway/crds';
import Type from 'typebox';
import { Id, Nullable, oneOf, Time } from '../http/schema.js';

const UnitStatus = oneOf(UNIT_STATUSES, {
  description: 'The state of its unit. `unknown`: the operator can not read it now.',
});
const UnitName = Type.String({ description: 'The name of its unit in systemd, without `.service`.' });

export const MachineService = Type.Object(
  {
    status: UnitStatus,
    unit: UnitName,
    since: Nullable(Time('When it reached this state.')),
    restarts: Nullable(Type.Integer(), {
      description: 'The number of times that systemd started it again after it had ended by itself.',
    }),
    main_pid: Nullable(Type.Integer(), { description: 'The id of its main process on the machine.' }),
    memory_bytes: Nullable(Type.Integer(), { description: 'Bytes of memory in use, accurate to 10 megabytes.' }),
  },
  { $id: 'MachineService', additionalProperties: false },
);
export type MachineService = Type.Static<typeof MachineService>;

export const MachineServices = Type.Object(
  {
    services: Type.Record(Type.String(), MachineService, {
      description: `Each service by its name: ${MACHINE_UNITS.join(', ')}.`,
    }),
    observed_at: Nullable(Time(''), {
      description:
        'When the services were in these states. Without a change it is up to four minutes old. ' +
        'Null before the first look at the machine.',
    }),
  },
  { $id: 'MachineServices', additionalProperties: false },
);
export type MachineServices = Type.Static<typeof MachineServices>;

export const RestartableService = Type.Object({
  id: Id('The id of the project.'),
  service: oneOf(RESTARTABLE_UNITS, { description: 'The service.' }),
});
export type RestartableService = Type.Static<typeof RestartableService>;

export const RestartedService = Type.Object(
  {
    ok: Type.Literal(true, { description: 'The service was restarted.' }),
    service: oneOf(RESTARTABLE_UNITS, { description: 'The service.' }),
    systemd_unit: UnitName,
    status: UnitStatus,
  },
  { $id: 'RestartedService', additionalProperties: false },
);
export type RestartedService = Type.Static<typeof RestartedService>;

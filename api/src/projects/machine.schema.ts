/** JSON schemas of the routes for the machine of a dedicated project. */
import { MACHINE_UNITS, RESTARTABLE_UNITS, UNIT_STATUSES } from '@slipway/crds';
import { UNIT_LOG_LEVELS, UNIT_LOG_LINES } from '@slipway/installation';
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

export const MachineServicePath = Type.Object({
  id: Id('The id of the project.'),
  service: oneOf(MACHINE_UNITS, { description: 'The service.' }),
});
export type MachineServicePath = Type.Static<typeof MachineServicePath>;

const LogLevel = oneOf(UNIT_LOG_LEVELS, { description: 'The severity.' });

export const ServiceLogQuery = Type.Object(
  {
    since: Type.Optional(
      Type.String({ format: 'date-time', description: 'Returns only lines of this time or later.' }),
    ),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: UNIT_LOG_LINES.most,
        default: UNIT_LOG_LINES.usual,
        description: 'The maximum number of lines. The newest ones are returned.',
      }),
    ),
    level: Type.Optional(
      oneOf(UNIT_LOG_LEVELS, {
        description: 'Returns only lines of this severity or a higher one, among the newest 10,000 lines or 4 MiB.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type ServiceLogQuery = Type.Static<typeof ServiceLogQuery>;

export const ServiceLogs = Type.Object(
  {
    items: Type.Array(
      Type.Object({
        time: Time('When the machine recorded it.'),
        level: LogLevel,
        message: Type.String({ description: 'At most 4 KiB, without secrets and control characters.' }),
      }),
      { description: 'The lines, newest last; at most 1 MiB of them.' },
    ),
  },
  { $id: 'ServiceLogs', additionalProperties: false },
);
export type ServiceLogs = Type.Static<typeof ServiceLogs>;

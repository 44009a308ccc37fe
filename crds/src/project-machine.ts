/** The machine of a dedicated project in its Project: what is requested of it, and what the operator saw and did. */
import Type from 'typebox';
import { MACHINE_SIZES, type MachineSize } from './machine-sizes.js';
import { type RestartableUnit, UNIT_STATUSES } from './machine-units.js';
import { DNS_LABEL } from './names.js';
import { MOST_REQUESTS } from './request-numbers.js';
import { oneOf, rule, Time } from './schema.js';

/** Maximum number of snapshots of a project. */
export const MOST_SNAPSHOTS = 10;
export const SNAPSHOT_NAME_MAX_LENGTH = 40;
export const SNAPSHOT_STATES = ['waiting', 'creating', 'complete', 'failed', 'deleting'] as const;
export type SnapshotState = (typeof SNAPSHOT_STATES)[number];

const SnapshotName = Type.String({
  maxLength: SNAPSHOT_NAME_MAX_LENGTH,
  pattern: `^${DNS_LABEL}$`,
  description: 'The name of the snapshot.',
});
const requestNumber = Type.Integer({ minimum: 1, maximum: MOST_REQUESTS, description: 'The number of the request.' });
const request = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: MOST_REQUESTS, description }));
const restart = (unit: RestartableUnit) => request(`A changed number restarts slipway-${unit} once.`);

export const MachineRequests = Type.Object(
  {
    restarts: Type.Optional(
      Type.Object(
        {
          auth: restart('auth'),
          postgrest: restart('postgrest'),
          storage: restart('storage'),
          realtime: restart('realtime'),
          nginx: restart('nginx'),
        },
        { description: 'Restarts units of the machine when a number changes.' },
      ),
    ),
    provision: request('A changed number provisions the project again, if it has no machine.'),
    snapshots: Type.Optional(
      Type.Record(
        Type.String(),
        Type.Object({
          description: Type.Optional(Type.String({ maxLength: 200, description: 'A note for people.' })),
        }),
        {
          maxProperties: MOST_SNAPSHOTS,
          description:
            'The wanted snapshots of the disk, by name. A new name makes one, with the machine off; a removed name ' +
            'deletes it.',
          'x-kubernetes-validations': [
            rule(
              `self.all(name, name.size() <= ${SNAPSHOT_NAME_MAX_LENGTH} && name.matches('^${DNS_LABEL}$'))`,
              `names of snapshots have at most ${SNAPSHOT_NAME_MAX_LENGTH} lowercase letters, digits and hyphens`,
            ),
          ],
        },
      ),
    ),
    restore: Type.Optional(
      Type.Object(
        { number: requestNumber, snapshot: SnapshotName },
        { description: 'A changed number replaces the disk by a snapshot. What was written since is lost.' },
      ),
    ),
    resize: Type.Optional(
      Type.Object(
        {
          number: requestNumber,
          keepDisk: Type.Optional(
            Type.Boolean({
              description: 'True to leave the disk as it is, so that a smaller plan stays possible. Default: false.',
            }),
          ),
        },
        { description: 'A changed number gives the machine the size of the plan, with the machine off.' },
      ),
    ),
  },
  { description: 'Requests for the machine of a dedicated project.' },
);

const Unit = Type.Object({
  status: oneOf(UNIT_STATUSES, { description: 'The state of the unit.' }),
  since: Type.Optional(Time('The time when the unit reached its state.')),
  restarts: Type.Optional(
    Type.Integer({ minimum: 0, description: 'The number of times that systemd started it again after its end.' }),
  ),
  mainPid: Type.Optional(Type.Integer({ minimum: 1, description: 'The id of its main process.' })),
  memoryBytes: Type.Optional(
    Type.Integer({ minimum: 0, description: 'Bytes of memory in use, accurate to 10 megabytes.' }),
  ),
});

const UnitRestart = Type.Object({
  number: Type.Integer({ minimum: 0, description: 'The number of spec.machine.restarts that it answers.' }),
  at: Time('The time of the restart, or of its failure.'),
  error: Type.Optional(Type.String({ maxLength: 512, description: 'The reason why it failed.' })),
});

const Snapshot = Type.Object({
  name: SnapshotName,
  state: oneOf(SNAPSHOT_STATES, { description: 'The state of the snapshot.' }),
  message: Type.Optional(Type.String({ maxLength: 512, description: 'The progress, or the reason why it failed.' })),
  diskGb: Type.Optional(Type.Integer({ description: 'The smallest disk in GB that it fits.' })),
  createdAt: Type.Optional(Time('The time when it was begun.')),
});

const answer = {
  number: Type.Integer({ minimum: 0, description: 'The number of the request that it answers.' }),
  at: Time('The time of its end.'),
  error: Type.Optional(Type.String({ maxLength: 512, description: 'The reason why it failed.' })),
};

/** The operator's answers to requests that outlive a machine. */
export const MachineAnswers = Type.Object(
  {
    snapshots: Type.Optional(
      Type.Array(Snapshot, { maxItems: 2 * MOST_SNAPSHOTS, description: 'The snapshots, oldest first.' }),
    ),
    restore: Type.Optional(
      Type.Object({ ...answer, snapshot: SnapshotName }, { description: 'The last requested restore.' }),
    ),
    resize: Type.Optional(Type.Object(answer, { description: 'The last requested change of the size.' })),
  },
  { description: 'The operator’s answers to spec.machine.' },
);

const SIZE_NAMES = Object.keys(MACHINE_SIZES) as MachineSize[];

export const MachineSeen = Type.Object(
  {
    id: Type.Optional(Type.String({ maxLength: 64, description: 'The id of the VM at the provider.' })),
    type: Type.Optional(Type.String({ maxLength: 64, description: 'The type that was ordered.' })),
    size: Type.Optional(oneOf(SIZE_NAMES, { description: 'The nominal size of the plan.' })),
    cores: Type.Optional(Type.Integer({ description: 'The number of processors.' })),
    memoryGb: Type.Optional(Type.Integer({ description: 'The memory in GB.' })),
    diskGb: Type.Optional(Type.Integer({ description: 'The disk in GB.' })),
    centsPerMonth: Type.Optional(
      Type.Integer({ minimum: 0, description: 'The net price in euro cents a month, without the IP address.' }),
    ),
    location: Type.Optional(Type.String({ maxLength: 64, description: 'The location at the provider.' })),
    address: Type.Optional(Type.String({ maxLength: 64, description: 'The public IP address.' })),
    certificate: Type.Optional(
      Type.String({ maxLength: 4096, description: 'The certificate (PEM) that the data plane expects of it.' }),
    ),
    units: Type.Optional(Type.Record(Type.String(), Unit, { description: 'The state of each unit, by name.' })),
    unitsObservedAt: Type.Optional(Time('The time when the units were in these states.')),
    restarts: Type.Optional(
      Type.Record(Type.String(), UnitRestart, { description: 'The last requested restart of each unit.' }),
    ),
  },
  { description: 'The VM of a dedicated project.' },
);

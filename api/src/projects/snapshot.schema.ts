/** JSON schemas of the routes for snapshots of a dedicated project's machine, and for its size. */
import { DNS_LABEL, MACHINE_SIZES, type MachineSize, SNAPSHOT_NAME_MAX_LENGTH, SNAPSHOT_STATES } from '@slipway/crds';
import Type from 'typebox';
import { Id, Line, Nullable, oneOf, Time } from '../http/schema.js';

const SnapshotName = Type.String({
  maxLength: SNAPSHOT_NAME_MAX_LENGTH,
  pattern: `^${DNS_LABEL}$`,
  description:
    `1-${SNAPSHOT_NAME_MAX_LENGTH} lower-case letters, digits and hyphens, with a letter or digit at both ends; ` +
    'unique in the project.',
  examples: ['before-import'],
});

export const SnapshotPath = Type.Object({ id: Id('The id of the project.'), name: SnapshotName });
export type SnapshotPath = Type.Static<typeof SnapshotPath>;

export const NewSnapshot = Type.Object(
  {
    name: SnapshotName,
    description: Type.Optional(
      Line({ maxLength: 200, description: 'A note for people.', examples: ['Before the import of March'] }),
    ),
  },
  { $id: 'NewMachineSnapshot', additionalProperties: false },
);
export type NewSnapshot = Type.Static<typeof NewSnapshot>;

export const Snapshot = Type.Object(
  {
    name: Type.String({ description: 'The name, unique in the project.' }),
    description: Nullable(Type.String(), { description: 'The note for people.' }),
    state: oneOf(SNAPSHOT_STATES, {
      description:
        'The state. `waiting`: the operator has not begun it. Only a `complete` snapshot can be restored. ' +
        'A `failed` one stays until it is deleted.',
    }),
    message: Nullable(Type.String(), { description: 'The progress, or the reason of a failure.' }),
    disk_gb: Nullable(Type.Integer(), { description: 'The smallest disk in GB to which it can be restored.' }),
    created_at: Nullable(Time('When the operator began it.')),
  },
  { $id: 'MachineSnapshot', additionalProperties: false },
);
export type Snapshot = Type.Static<typeof Snapshot>;

export const Snapshots = Type.Object(
  { items: Type.Array(Snapshot, { description: 'The snapshots, oldest first; those that wait come last.' }) },
  { $id: 'MachineSnapshots', additionalProperties: false },
);
export type Snapshots = Type.Static<typeof Snapshots>;

export const RestoreRequested = Type.Object(
  {
    ok: Type.Literal(true, { description: 'The restore is requested.' }),
    snapshot: Type.String({ description: 'The name of the snapshot.' }),
  },
  { $id: 'RestoreRequested', additionalProperties: false },
);
export type RestoreRequested = Type.Static<typeof RestoreRequested>;

export const SIZE_NAMES = Object.keys(MACHINE_SIZES) as MachineSize[];

export const Resize = Type.Object(
  {
    grow_disk: Type.Optional(
      Type.Boolean({
        default: true,
        description:
          'Whether the disk grows too. A disk never shrinks, so a plan with a smaller disk is impossible afterwards.',
      }),
    ),
  },
  { $id: 'MachineResize', additionalProperties: false },
);
export type Resize = Type.Static<typeof Resize>;

export const ResizeRequested = Type.Object(
  {
    ok: Type.Literal(true, { description: 'The resize is requested.' }),
    size: oneOf(SIZE_NAMES, { description: 'The nominal size of the project’s plan, which the machine gets.' }),
    grow_disk: Type.Boolean({ description: 'Whether the disk grows too.' }),
  },
  { $id: 'ResizeRequested', additionalProperties: false },
);
export type ResizeRequested = Type.Static<typeof ResizeRequested>;

const progress = {
  state: oneOf(['in_progress', 'done', 'failed'], { description: 'The state of the last request.' }),
  at: Nullable(Time('When it ended; null while it is in progress.')),
  error: Nullable(Type.String(), { description: 'The reason of the failure.' }),
};

/** The member of a project's status about its machine. */
export const MachineProgress = Type.Object(
  {
    size: Nullable(oneOf(SIZE_NAMES), {
      description: 'The nominal size that the machine has; null without a machine.',
    }),
    restore: Nullable(
      Type.Object({ snapshot: Type.String({ description: 'The name of the snapshot.' }), ...progress }),
      { description: 'The last requested restore; null before the first one.' },
    ),
    resize: Nullable(Type.Object(progress), { description: 'The last requested resize; null before the first one.' }),
  },
  { description: 'Only of a dedicated project: its machine.' },
);
export type MachineProgress = Type.Static<typeof MachineProgress>;

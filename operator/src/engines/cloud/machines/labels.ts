/** The labels of everything that is created at a provider. They find it again, also after a lost response. */
import type { Labels } from '../provider.js';

const INSTALLATION = 'slipway.dev/installation';
const PROJECT = 'slipway.dev/project';
const UID = 'slipway.dev/uid';

export interface MachineOwner {
  ref: string;
  uid: string;
}

export const labelsOf = (installation: string, { ref, uid }: MachineOwner): Labels => ({
  [INSTALLATION]: installation,
  [PROJECT]: ref,
  [UID]: uid,
});

/** The label of a snapshot with the software of a release. */
export const RELEASE_LABEL = 'slipway.dev/release';

export const goldenLabels = (installation: string, release: string): Labels => ({
  [INSTALLATION]: installation,
  [RELEASE_LABEL]: release,
});

/** The label of a snapshot that the project's owner named. Its value is the name. */
const SNAPSHOT = 'slipway.dev/snapshot';

export const snapshotLabels = (installation: string, owner: MachineOwner, name: string): Labels => ({
  ...labelsOf(installation, owner),
  [SNAPSHOT]: name,
});

/** Undefined: the labels are not those of a snapshot that the project's owner named. */
export const snapshotNameOf = (labels: Labels): string | undefined => labels[SNAPSHOT];

const RETAINED = 'slipway.dev/retained';

/** The labels of the snapshot that stays after the removal of the project. No named snapshot has all of them. */
export const retainedLabels = (installation: string, owner: MachineOwner): Labels => ({
  ...labelsOf(installation, owner),
  [RETAINED]: 'yes',
});

export const isRetained = (labels: Labels): boolean => labels[RETAINED] !== undefined;

export const labelsOfInstallation = (installation: string): Labels => ({ [INSTALLATION]: installation });

/** Undefined: the labels are not those of a project. */
export const uidOf = (labels: Labels): string | undefined => labels[UID];

/** Another project of the same ref may exist while the former one is being deleted. */
export const nameOf = (installation: string, { ref }: MachineOwner): string => `${ref}-${installation}`;

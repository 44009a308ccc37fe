/**
 * Finds machines of this installation at the provider that belong to no project, such as one whose creation was
 * executed after its project was deleted. They cost money. In: all machines of the installation, and the projects. Out:
 * a warning and a count; they are deleted only if a setting says so.
 */
import type { Logger } from 'pino';
import { every } from '../../../runtime/every.js';
import type { Labels, Machine, MachineProvider } from '../provider.js';
import { labelsOfInstallation, RELEASE_LABEL, uidOf } from './labels.js';

export interface SweepOptions {
  provider: MachineProvider;
  installation: string;
  /** True for the uid of a Project that exists. */
  isProject(uid: string): boolean;
  deletes: boolean;
  /** Called with the number of machines without a project that are left. */
  onCount(orphans: number): void;
  log: Logger;
}

const EVERY_MS = 15 * 60_000;
/** A younger machine may be that of a project, or of a snapshot, that is being made. */
const LEAST_AGE_MS = 60 * 60_000;

export class MachineSweep {
  readonly #stop = new AbortController();
  #end: (() => void) | undefined;
  #seen = '';

  constructor(private readonly options: SweepOptions) {}

  begin(): void {
    this.#end ??= every(EVERY_MS, 'sweep of machines', () => this.run(), this.options.log);
  }

  async run(now = new Date()): Promise<void> {
    const { provider, installation, isProject, deletes, onCount, log } = this.options;
    const all = await provider.list(labelsOfInstallation(installation), this.#stop.signal);
    const orphans = orphansOf(all, isProject, now);
    const names = orphans.map(({ name }) => name).join(', ');
    if (names !== '' && names !== this.#seen) log.warn({ machines: names, deletes }, 'machines of no project');
    this.#seen = names;
    const removable = deletes ? orphans.filter(({ labels }) => isOurs(labels)) : [];
    for (const { labels } of removable) await provider.delete(labels, this.#stop.signal);
    onCount(orphans.length - removable.length);
  }

  close(): void {
    this.#end?.();
    this.#stop.abort(new Error('the operator ends'));
  }
}

/**
 * False for labels that do not select one machine, such as those that a person gave one: a deletion by the name of the
 * installation alone would select the machines of all projects.
 */
const isOurs = (labels: Labels): boolean => uidOf(labels) !== undefined || labels[RELEASE_LABEL] !== undefined;

export const orphansOf = (machines: readonly Machine[], isProject: (uid: string) => boolean, now: Date): Machine[] =>
  machines.filter(({ labels, state, createdAt }) => {
    const uid = uidOf(labels);
    const isKnown = uid !== undefined && isProject(uid);
    return !isKnown && state !== 'deleting' && now.getTime() - createdAt.getTime() > LEAST_AGE_MS;
  });

/**
 * The snapshots of one project at the provider, each found by the label with its name. In: the names in the Project,
 * the machine's record, and the provider's list, which is read seldom. Out: the snapshots to make and to delete, and
 * the list for the status.
 */
import { type Backoff, delayOf, parseJson } from '@slipway/program';
import type { EngineProject, MachineAnswers } from '../../../capabilities/index.js';
import type { Machine, Snapshot } from '../provider.js';
import { labelsOf, snapshotLabels, snapshotNameOf } from './labels.js';
import type { MachineOrders } from './machine-orders.js';
import { type MachineRecord, type RecordChange, restoringOf } from './record.js';

type SnapshotView = NonNullable<MachineAnswers['snapshots']>[number];

/** The ids of snapshots by name. An empty one is that of a snapshot whose creation began. */
export type KnownSnapshots = Readonly<Record<string, string>>;

/** The part of a machine's work that changes its record. */
export interface RecordHolder {
  readonly project: EngineProject;
  readonly record: MachineRecord;
  change(change: RecordChange): Promise<MachineRecord>;
}

interface Failed {
  message: string;
  attempts: number;
  /** No attempt is made before, on the clock of `performance.now()`. */
  retryAt: number;
}

/** Others change the snapshots of a project at the provider rarely. */
const FRESH_MS = 10 * 60_000;
/** A snapshot that is not complete after this time never will be. */
const STALE_MS = 60 * 60_000;
const MOST_SHOWN = 500;
/** The record of no snapshots. */
const NONE = '{}';
const MESSAGES = {
  waiting: 'waiting for a machine with the data of the project',
  creating: 'the machine is off while the provider copies its disk',
  lost: 'The snapshot was deleted at the provider. Delete it here too, then make another one.',
};

export const knownSnapshots = ({ snapshots }: Pick<MachineRecord, 'snapshots'>): KnownSnapshots =>
  snapshots === undefined ? {} : (parseJson(snapshots) as KnownSnapshots);

/** A name may be that of a member of every object, such as `constructor`. */
const knownId = (known: KnownSnapshots, name: string): string | undefined =>
  Object.hasOwn(known, name) ? known[name] : undefined;

export interface SnapshotPlan {
  /** The one of each wanted name. */
  kept: ReadonlyMap<string, Snapshot>;
  /** Names of those to be made, or to be completed. */
  create: readonly string[];
  delete: readonly Snapshot[];
  /** Names of those that were complete and are no longer at the provider. They are not made again. */
  lost: readonly string[];
  known: KnownSnapshots;
}

/** `used`: the id of a snapshot from which a machine is being made. It is not deleted. */
export function planSnapshots(
  wanted: readonly string[],
  known: KnownSnapshots,
  found: readonly Snapshot[],
  { used, now = Date.now() }: { used?: string | undefined; now?: number } = {},
): SnapshotPlan {
  const isStale = ({ isComplete, createdAt }: Snapshot) => !isComplete && now - createdAt.getTime() > STALE_MS;
  const kept = new Map<string, Snapshot>();
  for (const name of wanted) {
    const named = found.filter((each) => snapshotNameOf(each.labels) === name && !isStale(each));
    const rank = (each: Snapshot) => (each.id === knownId(known, name) ? 0 : each.isComplete ? 1 : 2);
    const [first] = named.toSorted((a, b) => rank(a) - rank(b) || a.createdAt.getTime() - b.createdAt.getTime());
    if (first) kept.set(name, first);
  }
  const lost = wanted.filter((name) => knownId(known, name) && !kept.has(name));
  const ids = new Set([...kept.values()].map(({ id }) => id));
  const superfluous = found.filter(({ id, labels }) => snapshotNameOf(labels) !== undefined && !ids.has(id));
  const names = new Set(superfluous.map(({ labels }) => snapshotNameOf(labels)));
  const idOf = (name: string) => {
    const snapshot = kept.get(name);
    return snapshot?.isComplete ? snapshot.id : (knownId(known, name) ?? '');
  };
  return {
    kept,
    create: wanted.filter((name) => !kept.get(name)?.isComplete && !lost.includes(name)),
    delete: superfluous.filter(({ id }) => id !== used),
    lost,
    known: Object.fromEntries(
      [...new Set([...wanted, ...Object.keys(known)])]
        .filter((name) => (Object.hasOwn(known, name) && (wanted.includes(name) || names.has(name))) || kept.has(name))
        .map((name) => [name, idOf(name)]),
    ),
  };
}

export class ProjectSnapshots {
  #found: { until: number; list: readonly Snapshot[] } | undefined;
  /** Changed at the provider since the last list. */
  #isStale = false;
  /** The name of the snapshot that is being made. */
  creating: string | undefined;
  readonly #failed = new Map<string, Failed>();

  /** `retry`: the pauses after failed creations, each of which switches the machine off. */
  constructor(
    private readonly orders: MachineOrders,
    private readonly retry: Backoff,
  ) {}

  /** Returns the complete snapshot of the name, as the last list has it. */
  complete(name: string): Snapshot | undefined {
    return this.#found?.list.find((each) => each.isComplete && snapshotNameOf(each.labels) === name);
  }

  /** Returns the name of the newest complete snapshot, as the last list has it. */
  get newest(): string | undefined {
    const complete = (this.#found?.list ?? []).filter(({ isComplete }) => isComplete);
    const [newest] = complete.toSorted((a, b) => b.createdAt.getTime() - a.createdAt.getTime());
    return newest && snapshotNameOf(newest.labels);
  }

  /** Reads the provider's list. */
  async read({ project, record, change }: RecordHolder, signal: AbortSignal): Promise<SnapshotPlan> {
    const labels = labelsOf(this.orders.installation, project);
    const all = await this.orders.provider.listSnapshots(labels, signal);
    const list = all.filter((snapshot) => snapshotNameOf(snapshot.labels) !== undefined);
    this.#found = { until: performance.now() + FRESH_MS, list };
    this.#isStale = false;
    const plan = this.#plan({ project, record }, list);
    const known = JSON.stringify(plan.known);
    // A creation whose response was lost may be executed late, so the record is empty for one list before it ends.
    const isUnused = record.snapshots === NONE && list.length === 0 && wantedOf(project).length === 0;
    if (isUnused) await change({ snapshots: undefined });
    else if (known !== (record.snapshots ?? NONE)) await change({ snapshots: known });
    return plan;
  }

  /**
   * Returns the plan. Undefined: no snapshot is wanted, and none was known for ten minutes. Reads the provider's list
   * only after a change of the Project or of a snapshot, and otherwise every ten minutes.
   */
  async plan(holder: RecordHolder, hasData: boolean, signal: AbortSignal): Promise<SnapshotPlan | undefined> {
    const { project, record } = holder;
    const wanted = wantedOf(project);
    for (const name of this.#failed.keys()) if (!wanted.includes(name)) this.#failed.delete(name);
    if (wanted.length === 0 && record.snapshots === undefined) {
      this.#found = { until: performance.now() + FRESH_MS, list: [] };
      return undefined;
    }
    const found = this.#found;
    if (!found || this.#isStale || found.until <= performance.now()) return await this.read(holder, signal);
    const plan = this.#plan(holder, found.list);
    const isDue = plan.delete.length > 0 || (hasData && this.due(plan).length > 0);
    return isDue ? await this.read(holder, signal) : plan;
  }

  /** Returns the names of the snapshots to be made now. */
  due({ create }: SnapshotPlan): string[] {
    return create.filter((name) => (this.#failed.get(name)?.retryAt ?? 0) <= performance.now());
  }

  /** Copies the disk of the machine, which is off. Rejects only if the signal aborts the work. */
  async create(name: string, machine: Machine, holder: RecordHolder, signal: AbortSignal): Promise<void> {
    const { project, record, change } = holder;
    const { provider, installation } = this.orders;
    const description = `${project.machine?.snapshots?.[name]?.description || name} (${project.ref})`;
    this.#isStale = true;
    try {
      await change({ snapshots: JSON.stringify({ ...knownSnapshots(record), [name]: '' }) });
      const request = { labels: snapshotLabels(installation, project, name), description };
      const made = await provider.createSnapshot(machine.id, request, signal);
      await change({ snapshots: JSON.stringify({ ...knownSnapshots(holder.record), [name]: made.id }) });
      this.#failed.delete(name);
    } catch (error) {
      signal.throwIfAborted();
      this.fail(name, error as Error);
    }
  }

  /** Notes a failed attempt to make the snapshot. */
  fail(name: string, { message }: Error): void {
    const attempts = (this.#failed.get(name)?.attempts ?? 0) + 1;
    this.#failed.set(name, { message, attempts, retryAt: performance.now() + delayOf(this.retry, attempts) });
  }

  /** Deletes those that are no longer wanted. */
  async delete(plan: SnapshotPlan, signal: AbortSignal): Promise<void> {
    for (const { id } of plan.delete) {
      this.#isStale = true;
      await this.orders.provider.deleteSnapshot(id, signal);
    }
  }

  /** Returns the list for the status. Undefined: the provider's list was not read yet. */
  view(project: EngineProject, record: MachineRecord): SnapshotView[] | undefined {
    const found = this.#found?.list;
    if (!found) return undefined;
    const wanted = wantedOf(project);
    const { kept, lost } = this.#plan({ project, record }, found);
    const shown = (snapshot: Snapshot, state: SnapshotView['state']): SnapshotView => ({
      name: snapshotNameOf(snapshot.labels) as string,
      state,
      diskGb: Math.ceil(snapshot.diskGb),
      createdAt: snapshot.createdAt.toISOString(),
    });
    const views = wanted.map((name): SnapshotView => {
      const snapshot = kept.get(name);
      if (snapshot?.isComplete) return shown(snapshot, 'complete');
      if (this.creating === name) return { name, state: 'creating', message: MESSAGES.creating };
      const failed = lost.includes(name) ? MESSAGES.lost : this.#failed.get(name)?.message;
      if (failed !== undefined) return { name, state: 'failed', message: failed.slice(0, MOST_SHOWN) };
      return { name, state: 'waiting', message: MESSAGES.waiting };
    });
    const unwanted = new Map<string, SnapshotView>();
    for (const snapshot of found) {
      const name = snapshotNameOf(snapshot.labels) as string;
      if (!wanted.includes(name)) unwanted.set(name, shown(snapshot, 'deleting'));
    }
    return [...views, ...unwanted.values()].toSorted((a, b) => timeOf(a) - timeOf(b));
  }

  #plan({ project, record }: Pick<RecordHolder, 'project' | 'record'>, found: readonly Snapshot[]): SnapshotPlan {
    return planSnapshots(wantedOf(project), knownSnapshots(record), found, { used: restoringOf(record)?.image });
  }
}

const wantedOf = ({ machine }: EngineProject): string[] => Object.keys(machine?.snapshots ?? {});

/** Those without a time are made last. */
const timeOf = ({ createdAt }: SnapshotView) => (createdAt === undefined ? Number.MAX_VALUE : Date.parse(createdAt));

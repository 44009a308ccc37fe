/**
 * Counts the build time of each account per day, in UTC. In: builds that end. Out: the sums. Each Project has its own
 * sum in an annotation, with which the next operator continues. The time of deleted Projects counts until the operator
 * restarts. If the operator is killed before the write, the time of one build is lost.
 */
import { ANNOTATION_BUILD_TIME, type Build, type Project } from '@slipway/crds';
import { type Informer, isNotFound, type KubeClient } from '@slipway/kubernetes';
import type { Logger } from 'pino';
import { projectPath } from '../project/resources.js';
import { accountOf } from './turn.js';

interface Used {
  day: string;
  milliseconds: number;
}

/** The build time of a Project. Another Project of the same name has another uid. */
interface UsedByProject extends Used {
  uid: string;
  account: string;
}

export interface BuildTimeDeps {
  client: KubeClient;
  projects: Informer<Project>;
  log: Logger;
  now(): Date;
}

const VALUE = /^(\d{4}-\d\d-\d\d) (\d{1,9})$/;

export class BuildTime {
  readonly #deps: BuildTimeDeps;
  /** Sums by ref. The cache may not have a new annotation yet, and has no deleted Project. */
  readonly #counted = new Map<string, UsedByProject>();
  /** Sums of deleted Projects, by account. */
  readonly #deleted = new Map<string, Used>();

  constructor(deps: BuildTimeDeps) {
    this.#deps = deps;
  }

  /** Adds the milliseconds of a build that has ended. Never rejects: the end of a build does not depend on it. */
  async add(ref: string, milliseconds: number): Promise<void> {
    const { client, projects, log } = this.#deps;
    const project = projects.get(ref);
    if (!project) return;
    const day = this.#day();
    const used = { day, milliseconds: this.#usedBy(project, day) + milliseconds };
    this.#count(project, used);
    const value = `${used.day} ${Math.ceil(used.milliseconds / 1000)}`;
    const metadata = { uid: project.metadata.uid, annotations: { [ANNOTATION_BUILD_TIME]: value } };
    await client.patch(projectPath(ref), { metadata }).catch((error: Error) => {
      if (!isNotFound(error)) log.warn({ ref, why: error.message }, 'build time not recorded');
    });
  }

  /** Returns the milliseconds of builds that have ended today, by account. */
  byAccount(): Map<string, number> {
    const today = this.#day();
    for (const project of this.#deps.projects.list()) {
      const milliseconds = this.#usedBy(project, today);
      if (milliseconds > 0) this.#count(project, { day: today, milliseconds });
    }
    this.#forget(today);
    const sums = new Map([...this.#deleted].map(([account, { milliseconds }]) => [account, milliseconds]));
    for (const { account, milliseconds } of this.#counted.values())
      sums.set(account, (sums.get(account) ?? 0) + milliseconds);
    return sums;
  }

  #count(project: Project, used: Used): void {
    const { name, uid = '' } = project.metadata;
    this.#retire(name, uid);
    this.#counted.set(name, { ...used, uid, account: accountOf(project) });
  }

  /** Drops the sums of earlier days. Moves the sums of deleted Projects to their accounts. */
  #forget(today: string): void {
    for (const [account, { day }] of this.#deleted) if (day !== today) this.#deleted.delete(account);
    for (const [ref, { day }] of this.#counted) {
      if (day !== today) this.#counted.delete(ref);
      else this.#retire(ref, this.#deps.projects.get(ref)?.metadata.uid);
    }
  }

  /** Moves a Project's sum to its account, unless the Project has this uid. */
  #retire(ref: string, uid: string | undefined): void {
    const counted = this.#counted.get(ref);
    if (!counted || counted.uid === uid) return;
    const { account, day, milliseconds } = counted;
    const before = this.#deleted.get(account);
    this.#counted.delete(ref);
    this.#deleted.set(account, { day, milliseconds: milliseconds + (before?.day === day ? before.milliseconds : 0) });
  }

  /** Returns the milliseconds since the build began. */
  elapsed({ status }: Build): number {
    return status?.startedAt === undefined ? 0 : Math.max(0, this.#deps.now().getTime() - Date.parse(status.startedAt));
  }

  #usedBy({ metadata }: Project, day: string): number {
    const counted = this.#counted.get(metadata.name);
    const used = counted?.uid === metadata.uid ? counted : read(metadata.annotations?.[ANNOTATION_BUILD_TIME]);
    return used?.day === day ? used.milliseconds : 0;
  }

  #day(): string {
    return this.#deps.now().toISOString().slice(0, 10);
  }
}

function read(value: string | undefined): Used | undefined {
  const [, day, seconds] = VALUE.exec(value ?? '') ?? [];
  return day === undefined ? undefined : { day, milliseconds: Number(seconds) * 1000 };
}

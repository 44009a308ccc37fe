/**
 * Notices Builds that ended. In: a cache of all Builds. Out: an event for each deploy that succeeded or failed, under a
 * key of the Build, so that a Build which is seen again adds none.
 */
import { MikroORM } from '@mikro-orm/postgresql';
import { Inject, Injectable } from '@nestjs/common';
import { type Build, GROUP, VERSION } from '@slipway/crds';
import { namespaceOf } from '@slipway/installation';
import { Informer } from '@slipway/kubernetes';
import type { Logger } from 'pino';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectCache } from '../kubernetes/project-cache.js';
import { Outbox } from '../outbox/outbox.js';
import { sqlTime } from '../outbox/sql-values.js';
import { wantedChannels } from '../outbox/wanted-channels.js';
import { nameOf } from '../projects/project-view.js';
import { clockOf } from '../settings/clock.js';
import { LOG, SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import { HealthRepository, type ProjectIdentity } from './health.repository.js';

/** Older ends are not reported: the outbox may have deleted their keys. It keeps events for longer. */
const LOOK_BACK_MS = 7 * 24 * 60 * 60_000;
const AT_ONCE = 200;

type SeenBuild = Build & { metadata: { uid: string; namespace: string } };

@Injectable()
export class BuildEvents {
  private readonly informer: Informer<SeenBuild>;
  /** Ended Builds without an event, by uid. The cache limits their number. */
  private readonly ended = new Map<string, SeenBuild>();
  private readonly now: () => Date;
  private onEnd: () => void = () => undefined;
  /** When this installation got notifications. Builds that ended before are not reported. */
  private since: Date | undefined;

  constructor(
    private readonly cache: ProjectCache,
    private readonly identities: HealthRepository,
    private readonly outbox: Outbox,
    private readonly orm: MikroORM,
    kubernetes: Kubernetes,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
    @Inject(LOG) private readonly log: Logger,
  ) {
    this.now = clockOf(settings);
    const path = `/apis/${GROUP}/${VERSION}/builds`;
    this.informer = new Informer({ client: kubernetes.client, resource: 'builds', path, keep: lean, log });
    this.informer.onChange(({ before, after }) => {
      if (!after) return void this.ended.delete(before?.metadata.uid ?? '');
      if (!isInOwnNamespace(after)) return;
      if (typeOf(after) === undefined || (before && typeOf(before) !== undefined)) return;
      this.ended.set(after.metadata.uid, after);
      this.onEnd();
    });
  }

  /** Does not wait for the initial list. */
  start(onEnd: () => void): void {
    this.onEnd = onEnd;
    void this.informer.start();
  }

  stop(): Promise<void> {
    return this.informer.close();
  }

  /** Adds an event for each Build that ended. Those of projects without an id are tried again by the next call. */
  async compare(): Promise<void> {
    if (this.ended.size === 0) return;
    const first = Math.max((await this.beginning()).getTime(), this.now().getTime() - LOOK_BACK_MS);
    for (const [uid, build] of this.ended) if (endedAt(build).getTime() < first) this.ended.delete(uid);
    const builds = [...this.ended.values()];
    for (let at = 0; at < builds.length; at += AT_ONCE) await this.addAll(builds.slice(at, at + AT_ONCE));
  }

  private async addAll(builds: readonly SeenBuild[]): Promise<void> {
    const refs = [...new Set(builds.map(({ spec }) => spec.project))];
    const byRef = new Map((await this.identities.identities(refs)).map((identity) => [identity.ref, identity]));
    for (const build of builds) {
      const identity = byRef.get(build.spec.project);
      if (!identity) continue;
      try {
        await this.add(identity, build);
        this.ended.delete(build.metadata.uid);
      } catch (error) {
        this.log.warn({ err: error, ref: identity.ref }, 'end of a build not recorded; tried again');
      }
    }
  }

  private async add({ id, ref }: ProjectIdentity, build: SeenBuild): Promise<void> {
    const type = typeOf(build);
    const project = this.cache.get(ref);
    // Without its Project, the id is about to be removed.
    if (type === undefined || !project) return;
    const data = { project: { id, ref, name: nameOf(project) }, deploy: deployOf(build) };
    const event = { key: `${build.metadata.uid}/${type}`, type, at: endedAt(build), data };
    const wanted = wantedChannels(project, this.settings);
    const isAdded = await this.orm.em.fork().transactional((em) => this.outbox.addForProject(em, id, wanted, event));
    if (isAdded) this.outbox.announce();
  }

  private async beginning(): Promise<Date> {
    const sql = "select executed_at from platform.migrations where name = '0011_notifications'";
    const [row] = (await this.orm.em.fork().execute(sql)) as [{ executed_at: string }];
    this.since ??= sqlTime(row.executed_at);
    return this.since;
  }
}

/** A user of kubectl can name any project in a Build. The operator fails it, and no owner is notified. */
const isInOwnNamespace = ({ metadata, spec }: SeenBuild) => metadata.namespace === namespaceOf(spec.project);

const TYPES = { Deployed: 'deploy.succeeded', Failed: 'deploy.failed' } as const;
const typeOf = ({ status }: Build) => TYPES[status?.phase as keyof typeof TYPES];

/** Status times of Builds are whole seconds or finer. */
const endedAt = ({ status, metadata }: Build) => new Date(status?.finishedAt ?? (metadata.creationTimestamp as string));

function deployOf({ metadata, spec, status = {} }: SeenBuild) {
  const { commit = null, message = null, startedAt, finishedAt } = status;
  const seconds = startedAt && finishedAt ? (Date.parse(finishedAt) - Date.parse(startedAt)) / 1000 : null;
  return {
    id: metadata.name,
    commit,
    branch: spec.preview ?? null,
    is_preview: spec.preview !== undefined,
    message: status.phase === 'Failed' ? message : null,
    duration_seconds: seconds === null ? null : Math.round(seconds),
  };
}

/** The members that an event needs. */
function lean({ apiVersion, kind, metadata, spec, status = {} }: SeenBuild): SeenBuild {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = metadata;
  const { phase, commit, message, startedAt, finishedAt } = status;
  const { project, preview } = spec;
  return {
    ...{ apiVersion, kind },
    metadata: { name, namespace, uid, resourceVersion, creationTimestamp },
    spec: { project, ...(preview === undefined ? {} : { preview }) },
    status: { phase, commit, message, startedAt, finishedAt },
  } as SeenBuild;
}

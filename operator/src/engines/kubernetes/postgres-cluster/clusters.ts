/**
 * All Postgres clusters of the installation: one for the small projects of each region, and one for each other project.
 * In: projects, the site's settings, the caches of existing objects. Out: the methods of `Databases`. A project's
 * database stays where it was created: the Secret `project-database` records the place, and so does the project's
 * namespace. Called by the Kubernetes engine.
 */

import { type Region } from '@slipway/crds';
import {
  ANNOTATION_ADDRESS,
  ANNOTATION_RETAINED_FOR,
  LABEL_CLUSTER,
  LABEL_PROJECT,
  LABEL_RETAINED,
  namespaceOf,
  SECRETS,
  type Site,
} from '@slipway/installation';
import type { KubeClient, KubeObject } from '@slipway/kubernetes';
import type { Logger } from 'pino';
import {
  DATABASE_MOVE_UNSUPPORTED,
  type DatabaseAddress,
  type DatabaseRequest,
  type Databases,
  type EngineOutcome,
  type EngineProject,
  type RemoveRequest,
  type Usage,
} from '../../../capabilities/index.js';
import { DatabaseServer, databaseLost } from '../../postgres/server.js';
import type { EndedSession } from '../../postgres/session-watch.js';
import type { Children } from '../children/children.js';
import { withRestored } from '../children/ensure-all.js';
import { PullSecrets } from '../pull-secrets.js';
import { scaleDown } from '../scale-down.js';
import { type ClusterRequest, superuserSecretName, watchedSecret } from './cluster.js';
import {
  CLOUD_NATIVE_PG,
  clusterExists,
  clusterOutcome,
  ensureCluster,
  superuserUrl,
  theirsUnseen,
} from './ensure-cluster.js';
import { OpenServers } from './open-servers.js';
import { hostOf, ownPlace, type Place, placeOf, sharedPlace } from './place.js';
import { bytesOf } from './quantity.js';
import { SuperuserKeyLost, superuserKey, superuserPassword } from './superuser-password.js';

export interface PostgresClustersOptions {
  site: Site;
  client: KubeClient;
  children: Children;
  /** Returns the password of the role that reads changes for realtime, in the Postgres at `host`. */
  replicationPassword(host: string): Promise<string>;
  /** Called for each project whose roles or database were changed from outside. */
  onChange(ref: string): void;
  onSessionEnded?: ((ref: string, ended: EndedSession) => void) | undefined;
  onDatabaseFull?: ((ref: string, message: string) => void) | undefined;
  log: Logger;
}

const PORT = 5432;
/** Number of spare databases. With it, a handful of projects that are created at once need not wait. */
const SHARED_SPARES = 5;
const FIRST_REGION: Region = 'eu-central';
/** Milliseconds between checks of shared objects, because no event about them starts a reconcile of a project. */
const SHARED_LOOK_MS = 10_000;
const SHARED_FIRST_LOOK_MS = 500;
/** Milliseconds until the next check if Postgres already listens and its Service will route to it in a moment. */
const ALMOST_MS = 150;

const ready: EngineOutcome = { state: 'ready', value: undefined };

export class PostgresClusters implements Databases {
  readonly #options: PostgresClustersOptions;
  readonly #servers: OpenServers;
  readonly #pullSecrets: PullSecrets;
  /** Regions whose shared cluster is reconciled. */
  readonly #regions = new Set<Region>([FIRST_REGION]);
  readonly #ensuring = new Map<string, Promise<EngineOutcome>>();
  /** Descriptions of repairs that are not reported yet. */
  readonly #restored = new Map<string, Set<string>>();
  /** Clusters that were not ready at the last look: since when. */
  readonly #waitingSince = new Map<string, number>();
  #key: Promise<string> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: PostgresClustersOptions) {
    const { log, onChange, onSessionEnded, onDatabaseFull, client, children, site } = options;
    this.#options = options;
    this.#pullSecrets = new PullSecrets(client, children, site.images.pullSecrets);
    this.#servers = new OpenServers((place, adminUrl) => {
      const spares = place.project ? 0 : SHARED_SPARES;
      const replicationPassword = () => options.replicationPassword(hostOf(place));
      return new DatabaseServer({
        adminUrl,
        spares,
        ofOne: place.project !== undefined,
        replicationPassword,
        onChange,
        onSessionEnded,
        onDatabaseFull,
        // The volume of a project's own server limits its size.
        volumeBytes: place.project ? undefined : bytesOf(site.sharedDatabase.storage),
        log,
      });
    });
  }

  /** Starts reconciling shared clusters. The first region's cluster exists before its first project. */
  start(): void {
    void this.#keepShared();
  }

  addressOf(project: EngineProject): DatabaseAddress {
    const place = this.#placeOf(project);
    const outside = place.project ? undefined : this.#options.site.databasePublicAddress;
    return {
      host: hostOf(place),
      port: PORT,
      publicAddress: outside ?? `${hostOf(place)}:${PORT}`,
    };
  }

  /** Returns the id of the project's database, if its server runs and has a record of it. */
  async recordedId(project: EngineProject): Promise<string | undefined> {
    const { children } = this.#options;
    const place = this.#placeOf(project);
    if (!clusterExists(children, place)) return undefined;
    const url = superuserUrl(children, await this.#request(place, project.suspended));
    return url && this.#servers.use(place, url, (server) => server.recordedId(project.ref));
  }

  /**
   * Returns the size of the project's database. Undefined if it has a server of its own, or the server is unavailable.
   */
  async usage(project: EngineProject): Promise<Usage | undefined> {
    const { children } = this.#options;
    const place = this.#placeOf(project);
    if (place.project || !clusterExists(children, place)) return undefined;
    const url = superuserUrl(children, await this.#request(place, false));
    if (!url) return undefined;
    return this.#servers.use(place, url, async (server) => server.usage(project.ref));
  }

  async ensure(request: DatabaseRequest): Promise<EngineOutcome> {
    const { project } = request;
    const place = this.#placeOf(project);
    const outcome = await inWords(() => this.#ensureAt(place, request));
    const wanted = placeOf(project, this.#options.site);
    // Before a refusal of the move, the Secret must name the present database.
    if (outcome.state !== 'ready' || outcome.databaseId !== undefined) return outcome;
    return hostOf(wanted) === hostOf(place) ? outcome : moveUnsupported(project, place);
  }

  /** Removes the database. An own cluster is deleted with its namespace. */
  async remove(request: RemoveRequest): Promise<EngineOutcome> {
    const { client, children } = this.#options;
    const place = this.#placeOf(request);
    if (request.retain || !place.project) {
      const theirs = await theirsUnseen(client, children, place);
      if (theirs) return theirs;
    }
    if (place.project) {
      this.#servers.close(place);
      this.#restored.delete(hostOf(place));
      this.#waitingSince.delete(hostOf(place));
      if (!request.retain) await scaleDown(client, children, request, 'StatefulSet');
      else if (clusterExists(children, place)) await this.#retain(place, request);
      return ready;
    }
    if (!clusterExists(children, place)) return ready;
    return inWords(async () => this.#withServer(await this.#request(place, false), (server) => server.remove(request)));
  }

  /**
   * Retains the data of an own cluster. Its servers are deleted with the project. Its volume stays as long as its
   * namespace, which has no owner from then on.
   */
  async #retain(place: Place, { ref, uid, owner }: RemoveRequest): Promise<void> {
    const { client, children } = this.#options;
    const { namespace, name } = place;
    const path = `/api/v1/namespaces/${namespace}`;
    const { metadata: observed } = await client.get<KubeObject>(path);
    // A namespace that retains the data of an earlier project must not change. A missing owner proves nothing.
    const isAnothers = observed.ownerReferences?.some((owner) => owner.kind === 'Project' && owner.uid !== uid);
    if (observed.labels?.[LABEL_PROJECT] !== ref || observed.labels[LABEL_RETAINED] === 'true' || isAnothers) return;
    const secret = children.get('Secret', namespace, superuserSecretName(place));
    if (secret?.metadata.ownerReferences) {
      await client.patch(`${path}/secrets/${secret.metadata.name}`, { metadata: { ownerReferences: null } });
    }
    if (children.serves(CLOUD_NATIVE_PG) && children.get(CLOUD_NATIVE_PG, namespace, name))
      await this.#hibernate(namespace, name);
    const marks = { labels: { [LABEL_RETAINED]: 'true' }, annotations: { [ANNOTATION_RETAINED_FOR]: owner } };
    const { resourceVersion } = observed;
    await client.patch(path, { metadata: { ...marks, ownerReferences: null, resourceVersion } });
  }

  /**
   * Hibernates the Cluster. CloudNativePG deletes volumes with their Cluster, so it stays, and no server of it runs.
   */
  async #hibernate(namespace: string, name: string): Promise<void> {
    const path = `/apis/postgresql.cnpg.io/v1/namespaces/${namespace}/clusters/${name}`;
    const metadata = { ownerReferences: null, annotations: { 'cnpg.io/hibernation': 'on' } };
    await this.#options.client.patch(path, { metadata });
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await Promise.allSettled(this.#ensuring.values());
    await this.#servers.closeAll();
  }

  /** Returns the place where the project's database was made, or is to be made. */
  #placeOf(project: Pick<EngineProject, 'ref' | 'uid' | 'region' | 'plan' | 'retain'>): Place {
    const { children, site } = this.#options;
    const [own, shared] = [ownPlace(project), sharedPlace(project.region)];
    const records = [
      children.get('Secret', namespaceOf(project.ref), SECRETS.database.name),
      children.get('Namespace', undefined, namespaceOf(project.ref)),
    ];
    for (const record of records) {
      const host = record?.metadata.annotations?.[ANNOTATION_ADDRESS]?.split(':')[0];
      const place = [own, shared].find((each) => hostOf(each) === host);
      if (place) return place;
    }
    // If the records of the place were deleted, an existing own cluster shows it.
    return clusterExists(children, own) ? own : placeOf(project, site);
  }

  async #ensureAt(place: Place, request: DatabaseRequest): Promise<EngineOutcome> {
    const { project } = request;
    if (!place.project) {
      this.#regions.add(project.region);
      return this.#withServer(await this.#request(place, false), (server) => server.ensure(request));
    }
    const { client, children } = this.#options;
    // No empty database may take the place of a lost one, even for a moment.
    if (request.existed && !clusterExists(children, place))
      return (await theirsUnseen(client, children, place)) ?? databaseLost(request.databaseId);
    const desired = await this.#request(place, project.suspended, this.#options.site.plans[project.plan].database);
    if (!project.suspended) return this.#withServer(desired, (server) => server.ensure(request));
    this.#servers.close(place);
    return this.#withRepairs(place, await this.#ensureOnce(desired));
  }

  async #request(place: Place, suspended: boolean, size?: Site['sharedDatabase']): Promise<ClusterRequest> {
    const { client, children, site } = this.#options;
    this.#key ??= superuserKey(client, () => superuserSecretsOf(children)).catch((error) => {
      this.#key = undefined;
      throw error;
    });
    const password = superuserPassword(await this.#key, place);
    return { place, size: size ?? site.sharedDatabase, suspended, password, site };
  }

  async #withServer(
    desired: ClusterRequest,
    work: (server: DatabaseServer) => Promise<EngineOutcome>,
  ): Promise<EngineOutcome> {
    // A shared cluster is reconciled by itself: a project only checks whether it is ready.
    const kept = desired.place.project ? undefined : clusterOutcome(this.#options.children, desired);
    return this.#withEnsured(desired, kept?.state === 'ready' ? kept : await this.#ensureOnce(desired), work);
  }

  async #withEnsured(
    desired: ClusterRequest,
    outcome: EngineOutcome,
    work: (server: DatabaseServer) => Promise<EngineOutcome>,
  ): Promise<EngineOutcome> {
    if (outcome.state !== 'ready') return this.#withRepairs(desired.place, outcome);
    const url = superuserUrl(this.#options.children, desired);
    if (!url) return { state: 'progressing', message: 'waiting for the address of Postgres', lookAgainMs: ALMOST_MS };
    return this.#servers.use(desired.place, url, async (server) => {
      const closed = await this.#reach(desired.place, server);
      return closed ?? this.#withRepairs(desired.place, await work(server));
    });
  }

  /** Adds repairs that were not reported yet. */
  #withRepairs(place: Place, outcome: EngineOutcome): EngineOutcome {
    if (outcome.state === 'failed') return outcome;
    const restored = this.#restored.get(hostOf(place));
    this.#restored.delete(hostOf(place));
    return withRestored(outcome, [...(restored ?? [])]);
  }

  /** Undefined: the server accepts connections. Its pod is ready a moment before its Service routes to it. */
  async #reach({ name }: Place, server: DatabaseServer): Promise<EngineOutcome | undefined> {
    try {
      await server.start();
      return undefined;
    } catch (error) {
      const { code = 'no answer' } = error as { code?: string };
      const message = `waiting for Postgres ${name} to accept connections (${code})`;
      return { state: 'progressing', message, lookAgainMs: ALMOST_MS };
    }
  }

  /** Reconciles a cluster. Concurrent calls share one run. */
  #ensureOnce(desired: ClusterRequest): Promise<EngineOutcome> {
    const key = hostOf(desired.place);
    const running = this.#ensuring.get(key);
    if (running) return running;
    const begun = this.#ensureCluster(key, desired).finally(() => this.#ensuring.delete(key));
    this.#ensuring.set(key, begun);
    return begun;
  }

  async #ensureCluster(key: string, desired: ClusterRequest): Promise<EngineOutcome> {
    const { client, children } = this.#options;
    if (!desired.place.project) {
      const copied = await this.#pullSecrets.ensure((name) => watchedSecret(desired.place, name));
      if (copied.state !== 'ready') return copied;
    }
    const waitedMs = performance.now() - (this.#waitingSince.get(key) ?? performance.now());
    const { outcome, restored } = await ensureCluster(client, children, desired, waitedMs);
    if (outcome.state === 'ready') this.#waitingSince.delete(key);
    else if (!this.#waitingSince.has(key)) this.#waitingSince.set(key, performance.now());
    if (restored.length > 0) {
      this.#restored.set(key, new Set([...(this.#restored.get(key) ?? []), ...restored]));
    }
    return outcome;
  }

  async #keepShared(): Promise<void> {
    let wait = SHARED_LOOK_MS;
    for (const region of this.#regions) {
      try {
        const outcome = await this.#keep(sharedPlace(region));
        if (outcome.state !== 'ready') wait = SHARED_FIRST_LOOK_MS;
      } catch (error) {
        this.#options.log.warn({ region, why: (error as Error).message }, 'shared Postgres not reconciled');
      }
    }
    if (!this.#closed) this.#timer = setTimeout(() => void this.#keepShared(), wait).unref();
  }

  async #keep(place: Place): Promise<EngineOutcome> {
    const desired = await this.#request(place, false);
    return this.#withEnsured(desired, await this.#ensureOnce(desired), async () => ready);
  }
}

/** Returns the superusers' Secrets of all Postgres clusters. */
const superuserSecretsOf = (children: Children): string[] =>
  children
    .all('Secret')
    .filter(
      ({ metadata: { name, labels } }) =>
        name === superuserSecretName({ namespace: '', name: labels?.[LABEL_CLUSTER] ?? '' }),
    )
    .map(({ metadata: { namespace, name } }) => `${namespace}/${name}`);

async function inWords(work: () => Promise<EngineOutcome>): Promise<EngineOutcome> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof SuperuserKeyLost)) throw error;
    return { state: 'failed', reason: 'PostgresKeyLost', message: error.message, retry: true };
  }
}

function moveUnsupported({ plan }: EngineProject, place: Place): EngineOutcome {
  const [is, wants] = place.project
    ? ['in a Postgres of its own', 'one that projects share']
    : ['in a Postgres that projects share', 'one of its own'];
  const message =
    `the database is ${is}, and plan ${plan} needs ${wants}: the database is not moved. Set spec.plan back, or ` +
    'create another project and move the data there by pg_dump';
  return { state: 'failed', reason: DATABASE_MOVE_UNSUPPORTED, message, retry: false };
}

/**
 * All Postgres clusters of the installation: one that each region's small projects share, and own ones. In: projects,
 * the site's settings, the caches of what is there. Out: the database verbs of `Engine`. A project's database stays
 * where it was made: the Secret `project-database` says where, and its namespace. Called by the Kubernetes engine.
 */
import {
  ANNOTATION_ADDRESS,
  ANNOTATION_RETAINED_FOR,
  LABEL_CLUSTER,
  LABEL_PROJECT,
  LABEL_RETAINED,
  namespaceOf,
  type Region,
  SECRETS,
  type Site,
} from '@slipway/crds';
import type { Logger } from 'pino';
import type { KubeClient, KubeObject } from '../../../runtime/kube.js';
import {
  DATABASE_MOVE_UNSUPPORTED,
  type DatabaseAddress,
  type DatabaseRequest,
  type EngineOutcome,
  type EngineProject,
  type RemoveRequest,
} from '../../engine.js';
import { DatabaseServer, databaseLost } from '../../postgres/server.js';
import type { EndedSession } from '../../postgres/session-watch.js';
import type { Children } from '../children/children.js';
import { withRestored } from '../children/ensure-all.js';
import { PullSecrets } from '../pull-secrets.js';
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
import { SuperuserKeyLost, superuserKey, superuserPassword } from './superuser-password.js';

export interface PostgresClustersOptions {
  site: Site;
  client: KubeClient;
  children: Children;
  /** Returns the password of the role that reads changes for realtime, in the Postgres at `host`. */
  replicationPassword(host: string): Promise<string>;
  /** Told of each project whose roles or database somebody changed. */
  onChange(ref: string): void;
  onSessionEnded?: ((ref: string, ended: EndedSession) => void) | undefined;
  onDatabaseFull?: ((ref: string, message: string) => void) | undefined;
  log: Logger;
}

const PORT = 5432;
/** A handful of projects made at once wait for none. */
const SHARED_SPARES = 5;
const FIRST_REGION: Region = 'eu-central';
/** Interval between looks at shared objects: no event about them starts a reconcile of a project. */
const SHARED_LOOK_MS = 10_000;
const SHARED_FIRST_LOOK_MS = 500;
/** It listens already, and the way to it is about to be open. */
const ALMOST_MS = 150;

const ready: EngineOutcome = { state: 'ready', value: undefined };

export class PostgresClusters {
  readonly #options: PostgresClustersOptions;
  readonly #servers: OpenServers;
  readonly #pullSecrets: PullSecrets;
  /** Regions whose shared cluster is kept right. */
  readonly #regions = new Set<Region>([FIRST_REGION]);
  readonly #ensuring = new Map<string, Promise<EngineOutcome>>();
  /** Repairs that are not reported yet. */
  readonly #restored = new Map<string, Set<string>>();
  /** Those that were not ready when last looked at: since when. */
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
        log,
      });
    });
  }

  /** The first region's shared cluster is there before its first project. */
  start(): void {
    void this.#keepShared();
  }

  address(project: EngineProject): DatabaseAddress {
    const place = this.#placeOf(project);
    const outside = place.project ? undefined : this.#options.site.databasePublicAddress;
    return {
      host: hostOf(place),
      port: PORT,
      publicAddress: outside ?? `${hostOf(place)}:${PORT}`,
    };
  }

  /** The id of the project's database, where its server runs and says so. */
  async recordedId(project: EngineProject): Promise<string | undefined> {
    const { children } = this.#options;
    const place = this.#placeOf(project);
    if (!clusterExists(children, place)) return undefined;
    const url = superuserUrl(children, await this.#request(place, project.suspended));
    return url && this.#servers.use(place, url, (server) => server.recordedId(project.ref));
  }

  async ensure(request: DatabaseRequest): Promise<EngineOutcome> {
    const { project } = request;
    const place = this.#placeOf(project);
    const outcome = await inWords(() => this.#ensureAt(place, request));
    const wanted = placeOf(project, this.#options.site);
    // First the Secret has to name the database that is there.
    if (outcome.state !== 'ready' || outcome.databaseId !== undefined) return outcome;
    return hostOf(wanted) === hostOf(place) ? outcome : moveUnsupported(project, place);
  }

  /** An own cluster goes with its namespace. */
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
      if (request.retain && clusterExists(children, place)) await this.#retain(place, request);
      return ready;
    }
    if (!clusterExists(children, place)) return ready;
    return inWords(async () => this.#withServer(await this.#request(place, false), (server) => server.remove(request)));
  }

  /** Its servers go with the project; its volume stays as long as its namespace, which nobody owns any more. */
  async #retain(place: Place, { ref, uid, owner }: RemoveRequest): Promise<void> {
    const { client, children } = this.#options;
    const { namespace, name } = place;
    const path = `/api/v1/namespaces/${namespace}`;
    const { metadata: held } = await client.get<KubeObject>(path);
    // One that keeps the data of an earlier project is not this one's to give away. That nobody owns it says nothing.
    const isAnothers = held.ownerReferences?.some((owner) => owner.kind === 'Project' && owner.uid !== uid);
    if (held.labels?.[LABEL_PROJECT] !== ref || held.labels[LABEL_RETAINED] === 'true' || isAnothers) return;
    const secret = children.get('Secret', namespace, superuserSecretName(place));
    if (secret?.metadata.ownerReferences) {
      await client.patch(`${path}/secrets/${secret.metadata.name}`, { metadata: { ownerReferences: null } });
    }
    if (children.serves(CLOUD_NATIVE_PG) && children.get(CLOUD_NATIVE_PG, namespace, name))
      await this.#hibernate(namespace, name);
    const marks = { labels: { [LABEL_RETAINED]: 'true' }, annotations: { [ANNOTATION_RETAINED_FOR]: owner } };
    const { resourceVersion } = held;
    await client.patch(path, { metadata: { ...marks, ownerReferences: null, resourceVersion } });
  }

  /** CloudNativePG's volumes go with their Cluster: it stays, and nothing of it runs. */
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

  /** Where its database was made, or is to be. */
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
    // Whoever deletes what says so does not move the database.
    return clusterExists(children, own) ? own : placeOf(project, site);
  }

  async #ensureAt(place: Place, request: DatabaseRequest): Promise<EngineOutcome> {
    const { project } = request;
    if (!place.project) {
      this.#regions.add(project.region);
      return this.#withServer(await this.#request(place, false), (server) => server.ensure(request));
    }
    const { client, children } = this.#options;
    // Not even for a moment an empty one in its place.
    if (request.existed && !clusterExists(children, place))
      return (await theirsUnseen(client, children, place)) ?? databaseLost(request.databaseId);
    const asked = await this.#request(place, project.suspended, this.#options.site.plans[project.plan].database);
    if (!project.suspended) return this.#withServer(asked, (server) => server.ensure(request));
    this.#servers.close(place);
    return this.#told(place, await this.#ensureOnce(asked));
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
    asked: ClusterRequest,
    work: (server: DatabaseServer) => Promise<EngineOutcome>,
  ): Promise<EngineOutcome> {
    // What projects share is kept right by itself: a project looks only whether it is there.
    const kept = asked.place.project ? undefined : clusterOutcome(this.#options.children, asked);
    return this.#withEnsured(asked, kept?.state === 'ready' ? kept : await this.#ensureOnce(asked), work);
  }

  async #withEnsured(
    asked: ClusterRequest,
    outcome: EngineOutcome,
    work: (server: DatabaseServer) => Promise<EngineOutcome>,
  ): Promise<EngineOutcome> {
    if (outcome.state !== 'ready') return this.#told(asked.place, outcome);
    const url = superuserUrl(this.#options.children, asked);
    if (!url) return { state: 'progressing', message: 'waiting for the address of Postgres', lookAgainMs: ALMOST_MS };
    return this.#servers.use(asked.place, url, async (server) => {
      const closed = await this.#reach(asked.place, server);
      return closed ?? this.#told(asked.place, await work(server));
    });
  }

  /** With what was put right and is not told yet. */
  #told(place: Place, outcome: EngineOutcome): EngineOutcome {
    if (outcome.state === 'failed') return outcome;
    const restored = this.#restored.get(hostOf(place));
    this.#restored.delete(hostOf(place));
    return withRestored(outcome, [...(restored ?? [])]);
  }

  /** Undefined: it takes connections. Its pod is ready a moment before its Service leads to it. */
  async #reach({ name }: Place, server: DatabaseServer): Promise<EngineOutcome | undefined> {
    try {
      await server.start();
      return undefined;
    } catch (error) {
      const { code = 'no answer' } = error as { code?: string };
      const message = `waiting for Postgres ${name} to take connections (${code})`;
      return { state: 'progressing', message, lookAgainMs: ALMOST_MS };
    }
  }

  /** Many that ask at once are one piece of work. */
  #ensureOnce(asked: ClusterRequest): Promise<EngineOutcome> {
    const key = hostOf(asked.place);
    const running = this.#ensuring.get(key);
    if (running) return running;
    const begun = this.#ensureCluster(key, asked).finally(() => this.#ensuring.delete(key));
    this.#ensuring.set(key, begun);
    return begun;
  }

  async #ensureCluster(key: string, asked: ClusterRequest): Promise<EngineOutcome> {
    const { client, children } = this.#options;
    if (!asked.place.project) {
      const copied = await this.#pullSecrets.ensure((name) => watchedSecret(asked.place, name));
      if (copied.state !== 'ready') return copied;
    }
    const waitedMs = performance.now() - (this.#waitingSince.get(key) ?? performance.now());
    const { outcome, restored } = await ensureCluster(client, children, asked, waitedMs);
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
        this.#options.log.warn(
          { region, why: (error as Error).message },
          'the shared Postgres could not be looked after',
        );
      }
    }
    if (!this.#closed) this.#timer = setTimeout(() => void this.#keepShared(), wait).unref();
  }

  async #keep(place: Place): Promise<EngineOutcome> {
    const asked = await this.#request(place, false);
    return this.#withEnsured(asked, await this.#ensureOnce(asked), async () => ready);
  }
}

/** Those that Postgres clusters were set up with. */
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
    `the database is ${is}, and plan ${plan} asks for ${wants}: it is not moved. Set spec.plan back, or make another ` +
    'project and move the data there by pg_dump';
  return { state: 'failed', reason: DATABASE_MOVE_UNSUPPORTED, message, retry: false };
}

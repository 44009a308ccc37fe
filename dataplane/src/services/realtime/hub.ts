/**
 * Realtime state of one project: its sockets, topics, presences, limits and database connections. In: clients' sockets
 * and messages from the database. Out: each broadcast to every channel of its topic. Created by the service at the
 * first request for a project.
 */
import { CONNECTIONS_AS_AUTHENTICATOR, REALTIME_LIMITS, type RealtimeLimits, scramOnly } from '@slipway/installation';
import type { TokenBucket } from '@slipway/program';
import { LACKS_GENERATED_COLUMNS, migrateRealtime, publishGeneratedColumns } from '@slipway/project-database';
import pg from 'pg';
import type { Logger } from 'pino';
import type { Tokens } from '../../identity/tokens.js';
import type { BackendTenant } from '../../projects/tenant.js';
import { boundedSocket, JOB_BYTES } from '../../sql/bounded-socket.js';
import { Pool } from '../../sql/pool.js';
import { Changes } from './changes/changes.js';
import type { ReaderShares } from './changes/reader-shares.js';
import type { ReplicationLogin } from './changes/stream.js';
import type { Channel } from './channel.js';
import type { Connection } from './connection.js';
import { MessageFeed, NOTIFICATIONS } from './database/message-feed.js';
import { assume, Refused, SERVICE } from './identity.js';
import { Budget, newBucket } from './limits.js';
import { Presence } from './presence.js';
import type { Frame } from './protocol/frame.js';
import { Broadcast, pushFrame, type Version } from './protocol/messages.js';

/** Postgres channel on which the database notifies of DDL. */
const SCHEMA_NOTIFICATIONS = 'pgrst';

export interface HubOptions {
  tenant: BackendTenant;
  tokens: Tokens;
  replication: ReplicationLogin;
  shares: ReaderShares;
  log: Logger;
}

export class Hub {
  tenant: BackendTenant;
  readonly tokens: Tokens;
  readonly log: Logger;
  readonly limits: RealtimeLimits;
  readonly pool: Pool;
  readonly changes: Changes;
  readonly events: TokenBucket;
  readonly presenceEvents: TokenBucket;
  readonly reservedBytes: Budget;
  /** Budget of messages that wait for an earlier one. */
  readonly waiting: Budget;
  readonly #joins: TokenBucket;
  readonly #connections = new Set<Connection>();
  /** Sockets with a joined channel, which count against the plan. */
  readonly #users = new Set<Connection>();
  readonly #topics = new Map<string, Topic>();
  readonly #feed: MessageFeed;
  #ready: Promise<void> | undefined;
  usedAt = performance.now();

  constructor({ tenant, tokens, replication, shares, log }: HubOptions) {
    this.tenant = tenant;
    this.tokens = tokens;
    this.log = log;
    this.limits = REALTIME_LIMITS[tenant.plan];
    this.events = newBucket(this.limits.eventsPerSecond);
    this.presenceEvents = newBucket(this.limits.presenceEventsPerSecond);
    this.reservedBytes = new Budget(this.limits.heldBytes);
    this.waiting = new Budget(this.limits.heldBytes);
    this.#joins = newBucket(this.limits.joinsPerSecond);
    // Connections that check policies and changes. One stays open while there are channels, because it receives
    // notifications.
    const limits = { connections: CONNECTIONS_AS_AUTHENTICATOR.realtime, idleMs: Number.POSITIVE_INFINITY };
    this.pool = new Pool(tenant.authenticator, limits, {
      listen: [NOTIFICATIONS, SCHEMA_NOTIFICATIONS],
      onNotification: (channel) => {
        if (channel === SCHEMA_NOTIFICATIONS) this.changes.forgetTables();
        else void this.#feed.look();
      },
      onReconnect: () => void this.#feed.look(),
    });
    this.#feed = new MessageFeed(
      this.pool,
      this.limits.payloadBytes,
      ({ id, topic, event, payload, isPrivate }) => {
        if (!this.events.tryTake()) return;
        this.find(topic, isPrivate)?.broadcast(Broadcast.of(`realtime:${topic}`, event, payload, { id }));
      },
      (error) => log.warn({ why: error.message, ref: tenant.ref }, 'messages of a database not readable yet'),
    );
    this.changes = new Changes({
      tenant,
      pool: this.pool,
      replication,
      shares,
      recordBytes: this.limits.recordBytes,
      log,
    });
  }

  get isUsed(): boolean {
    return this.#connections.size > 0;
  }

  addConnection(connection: Connection): void {
    this.#connections.add(connection);
  }

  removeConnection(connection: Connection): void {
    this.#connections.delete(connection);
    this.#users.delete(connection);
    this.usedAt = performance.now();
  }

  get connectionCount(): number {
    return this.#connections.size;
  }

  /** Returns undefined if the project's plan allows one more channel of the socket. */
  admit(connection: Connection): Refused | undefined {
    const { connections, channelsPerConnection } = this.limits;
    if (!this.#users.has(connection) && this.#users.size >= connections) {
      return new Refused('ConnectionRateLimitReached', 'Too many connected users');
    }
    if (!this.#joins.tryTake()) return new Refused('ClientJoinRateLimitReached', 'Too many joins per second');
    if (connection.channels >= channelsPerConnection) {
      return new Refused('ChannelRateLimitReached', 'Too many channels');
    }
    this.#users.add(connection);
    return undefined;
  }

  /** Resolves once the database has everything that realtime needs, and its messages are received. */
  ready(): Promise<void> {
    this.#ready ??= this.#prepare().catch((error) => {
      this.#ready = undefined;
      throw error;
    });
    return this.#ready;
  }

  async #prepare(): Promise<void> {
    const text = `select to_regproc('realtime.broadcast_changes') is null, ${LACKS_GENERATED_COLUMNS}`;
    const [, answer] = await this.pool.batch([assume(SERVICE), { text }]);
    const [isOld, lacksColumns] = (answer?.rows[0] ?? []).map((value) => value?.toString() === 't');
    if (isOld) await this.#asOwner(migrateRealtime);
    if (lacksColumns) {
      // A full database is closed to its owner: realtime works without these columns, and the next start tries again.
      await this.#asOwner(publishGeneratedColumns).catch((error: Error) =>
        this.log.warn({ why: error.message, ref: this.tenant.ref }, 'generated columns not published'),
      );
    }
    await this.#feed.start();
  }

  /** Upgrades an older database. Runs as its owner, so with no more rights than the tenant's. */
  async #asOwner(upgrade: (owner: pg.Client) => Promise<void>): Promise<void> {
    const owner = scramOnly(
      new pg.Client({
        ...this.tenant.owner,
        connectionTimeoutMillis: 5_000,
        stream: () => boundedSocket(JOB_BYTES),
      }),
    );
    owner.on('error', () => undefined);
    await owner.connect();
    try {
      await upgrade(owner);
    } finally {
      await owner.end();
    }
  }

  topic(name: string, isPrivate: boolean): Topic {
    const key = topicKey(name, isPrivate);
    let topic = this.#topics.get(key);
    if (topic === undefined) {
      topic = new Topic(`realtime:${name}`, this.limits.presenceBytes, () => this.#topics.delete(key));
      this.#topics.set(key, topic);
    }
    return topic;
  }

  /** Returns undefined if the topic has no subscriber. */
  find(name: string, isPrivate: boolean): Topic | undefined {
    return this.#topics.get(topicKey(name, isPrivate));
  }

  /** Keeps sockets and channels whose tokens are valid with the project's present keys, and closes the others. */
  async adopt(tenant: BackendTenant): Promise<void> {
    this.tenant = tenant;
    this.pool.useLogin(tenant.authenticator);
    for (const connection of [...this.#connections]) await connection.review();
  }

  closeSilent(): void {
    for (const connection of this.#connections) connection.closeIfSilent();
  }

  async close(): Promise<void> {
    for (const connection of [...this.#connections]) connection.leave();
    this.#feed.close();
    await this.changes.close();
    await this.pool.close();
  }
}

/** A private topic differs from a public one of the same name. */
const topicKey = (name: string, isPrivate: boolean) => `${isPrivate ? 'private' : 'public'}:${name}`;

export class Topic {
  readonly presence: Presence<Channel>;
  readonly #channels = new Set<Channel>();

  constructor(
    private readonly name: string,
    presenceBytes: number,
    private readonly onEmpty: () => void,
  ) {
    this.presence = new Presence(presenceBytes);
  }

  add(channel: Channel): void {
    this.#channels.add(channel);
  }

  remove(channel: Channel): void {
    this.untrack(channel);
    this.#channels.delete(channel);
    if (this.#channels.size === 0) this.onEmpty();
  }

  broadcast(broadcast: Broadcast, except?: Channel): void {
    for (const channel of this.#channels) {
      if (channel === except || !channel.receivesBroadcast(broadcast.id)) continue;
      const frame = broadcast.frame(channel.version);
      if (frame !== undefined) channel.send(frame);
    }
  }

  /** Returns false if the topic has reached its limit of bytes. */
  track(channel: Channel, key: string, json: string): boolean {
    const differences = this.presence.track(channel, key, json);
    for (const difference of differences ?? []) this.#tell(difference);
    return differences !== undefined;
  }

  untrack(channel: Channel): void {
    const difference = this.presence.untrack(channel);
    if (difference !== undefined) this.#tell(difference);
  }

  #tell(difference: string): void {
    const frames = new Map<Version, Frame>();
    for (const channel of this.#channels) {
      if (!channel.receivesPresence) continue;
      const { version } = channel;
      const frame = frames.get(version) ?? pushFrame(version, { topic: this.name, event: 'presence_diff' }, difference);
      frames.set(version, frame);
      channel.send(frame);
    }
  }
}

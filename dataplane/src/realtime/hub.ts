/**
 * All that one project has of realtime: its sockets, topics, presences, limits and connections to its database. In:
 * tenants' sockets and messages from the database. Out: each broadcast to every channel of its topic. Made by the
 * service when a project is first asked for.
 */
import { CONNECTIONS_AS_AUTHENTICATOR, scramOnly } from '@slipway/crds';
import { migrateRealtime } from '@slipway/project-database';
import pg from 'pg';
import type { Logger } from 'pino';
import type { Tokens } from '../gateway/tokens.js';
import { boundedSocket, JOB_BYTES } from '../sql/bounded-socket.js';
import { Pool } from '../sql/pool.js';
import type { Tenant } from '../tenant.js';
import { Changes } from './changes/changes.js';
import type { ReaderShares } from './changes/reader-shares.js';
import type { ReplicationLogin } from './changes/stream.js';
import type { Channel } from './channel.js';
import type { Connection } from './connection.js';
import { MessageFeed, NOTIFICATIONS } from './database/message-feed.js';
import { assume, Refused, SERVICE } from './identity.js';
import { Budget, LIMITS, RateLimit, type RealtimeLimits } from './limits.js';
import { Presence } from './presence.js';
import type { Frame } from './protocol/frame.js';
import { Broadcast, pushFrame, type Version } from './protocol/messages.js';

/** Told of DDL by the database itself. */
const SCHEMA_NOTIFICATIONS = 'pgrst';

export interface HubOptions {
  tenant: Tenant;
  tokens: Tokens;
  replication: ReplicationLogin;
  shares: ReaderShares;
  log: Logger;
}

export class Hub {
  tenant: Tenant;
  readonly tokens: Tokens;
  readonly log: Logger;
  readonly limits: RealtimeLimits;
  readonly pool: Pool;
  readonly changes: Changes;
  readonly events: RateLimit;
  readonly presenceEvents: RateLimit;
  readonly held: Budget;
  /** Budget of messages that wait for an earlier one. */
  readonly waiting: Budget;
  readonly #joins: RateLimit;
  readonly #connections = new Set<Connection>();
  /** Sockets that have joined: those that count against the plan. */
  readonly #users = new Set<Connection>();
  readonly #topics = new Map<string, Topic>();
  readonly #feed: MessageFeed;
  #ready: Promise<void> | undefined;
  usedAt = performance.now();

  constructor({ tenant, tokens, replication, shares, log }: HubOptions) {
    this.tenant = tenant;
    this.tokens = tokens;
    this.log = log;
    this.limits = LIMITS[tenant.plan];
    this.events = new RateLimit(this.limits.eventsPerSecond);
    this.presenceEvents = new RateLimit(this.limits.presenceEventsPerSecond);
    this.held = new Budget(this.limits.heldBytes);
    this.waiting = new Budget(this.limits.heldBytes);
    this.#joins = new RateLimit(this.limits.joinsPerSecond);
    // Policies are asked and changes checked on these; one is kept open while there are channels, as notifications come
    // on it.
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
        if (!this.events.take()) return;
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

  /** Whether one more channel of the socket fits the project's plan. */
  admit(connection: Connection): Refused | undefined {
    const { connections, channelsPerConnection } = this.limits;
    if (!this.#users.has(connection) && this.#users.size >= connections) {
      return new Refused('ConnectionRateLimitReached', 'Too many connected users');
    }
    if (!this.#joins.take()) return new Refused('ClientJoinRateLimitReached', 'Too many joins per second');
    if (connection.channels >= channelsPerConnection) {
      return new Refused('ChannelRateLimitReached', 'Too many channels');
    }
    this.#users.add(connection);
    return undefined;
  }

  /** Resolves when the database has all that realtime needs, and messages of it are heard. */
  ready(): Promise<void> {
    this.#ready ??= this.#prepare().catch((error) => {
      this.#ready = undefined;
      throw error;
    });
    return this.#ready;
  }

  async #prepare(): Promise<void> {
    const look = { text: `select to_regproc('realtime.broadcast_changes') is not null` };
    const [, answer] = await this.pool.batch([assume(SERVICE), look]);
    // A database that is older than the schema; as its owner, so with no more rights than the tenant's.
    if (answer?.rows[0]?.[0]?.toString() !== 't') await this.#migrate();
    await this.#feed.start();
  }

  async #migrate(): Promise<void> {
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
      await migrateRealtime(owner);
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

  /** Undefined: nobody listens. */
  find(name: string, isPrivate: boolean): Topic | undefined {
    return this.#topics.get(topicKey(name, isPrivate));
  }

  /** Sockets and channels whose tokens are good with the project's keys as they are now go on; the others end. */
  async adopt(tenant: Tenant): Promise<void> {
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

/** A private topic and a public one of the same name never meet. */
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

  /** False: the topic tracks too much. */
  track(channel: Channel, key: string, payload: object): boolean {
    const differences = this.presence.track(channel, key, payload);
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
      const frame = frames.get(version) ?? pushFrame(version, this.name, 'presence_diff', difference, null);
      frames.set(version, frame);
      channel.send(frame);
    }
  }
}

/**
 * One channel of one socket, from phx_join to its end. In: the client's messages, in order. Out: replies, and messages
 * for the hub. The token decides the identity; the policies on `realtime.messages` decide the permissions on a private
 * topic.
 */
import { ConnectionError, DatabaseError, PoolBusyError } from '../../sql/pool.js';
import type { Connection } from './connection.js';
import { type Allowed, mayRead, mayWrite } from './database/authorization.js';
import { type DatabaseMessage, replayed } from './database/message-feed.js';
import type { Topic } from './hub.js';
import { expiry, type Identity, identityOf, isRevoked, Refused, verifyToken } from './identity.js';
import { MAX_JOIN_BYTES } from './limits.js';
import type { Frame } from './protocol/frame.js';
import { type JoinConfig, readJoin } from './protocol/join.js';
import { memberOf } from './protocol/json.js';
import { Broadcast, type Incoming, pushFrame } from './protocol/messages.js';

/** Maximum number of messages that wait for an earlier one. A client that sends more is flooding the channel. */
const MAX_WAITING = 100;
/** Milliseconds after which the expiry of the token is checked again, because Node's timers have a maximum delay. */
const LOOK_AT_TOKEN_MS = 3_600_000;

export class Channel {
  #state: 'joining' | 'joined' | 'ended' = 'joining';
  #config: JoinConfig | undefined;
  #identity: Identity | undefined;
  #token: string | undefined;
  #topic: Topic | undefined;
  #read: Allowed = { broadcast: true, presence: true };
  #write: Allowed | undefined;
  #showsPresence = false;
  #work: Promise<void> | undefined;
  #waiting = 0;
  #expiry: NodeJS.Timeout | undefined;
  /** Ids of the database's messages that were replayed, or arrived during the replay, so that each is sent once. */
  readonly #sentIds = new Set<string>();
  #replays = false;
  /** Bytes that are reserved in the project's budget. */
  readonly #reserved = { join: 0, presence: 0 };

  constructor(
    private readonly connection: Connection,
    readonly topic: string,
    readonly name: string,
    private readonly joinRef: string | null,
  ) {}

  get hub() {
    return this.connection.hub;
  }
  get identity(): Identity | undefined {
    return this.#identity;
  }
  get version() {
    return this.connection.version;
  }
  /** Must be checked after each wait, because the end of a channel releases its resources. */
  get #hasEnded(): boolean {
    return this.#state === 'ended';
  }

  join(message: Incoming): void {
    this.#enqueue(message, () => this.#join(message));
  }

  take(message: Incoming): void {
    if (message.event === 'phx_leave') this.#leave(message);
    else if (this.#work === undefined && message.event === 'broadcast' && this.#broadcastNow(message)) return;
    else this.#enqueue(message, () => this.#handle(message));
  }

  /** Sends a frame of this channel's topic and protocol version. */
  send(frame: Frame): void {
    this.connection.send(frame);
  }

  push(event: string, payload: object): void {
    this.send(pushFrame(this.version, { topic: this.topic, event, joinRef: this.joinRef }, JSON.stringify(payload)));
  }

  system(extension: string, status: 'ok' | 'starting' | 'error', message: string): void {
    this.push('system', { extension, status, message, channel: this.name });
  }

  /** Sends the reason, and ends the channel. After `phx_error` the client joins again by itself. */
  shutDown(message: string, event: 'phx_close' | 'phx_error' = 'phx_close'): void {
    if (this.#state === 'ended') return;
    this.system('system', 'error', message);
    this.end(event);
  }

  end(event?: 'phx_close' | 'phx_error'): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    clearTimeout(this.#expiry);
    this.#hold('join', 0);
    this.#hold('presence', 0);
    if (event !== undefined) this.push(event, {});
    this.hub.changes.unsubscribe(this);
    this.#topic?.remove(this);
    this.connection.forget(this);
  }

  /** Checks the token again after the project's keys have changed. */
  async review(): Promise<void> {
    const token = this.#token;
    if (token === undefined || token.startsWith('sb_')) return;
    if (await isRevoked(this.hub.tokens, this.hub.tenant, token)) this.shutDown('The token is no longer good');
  }

  receivesBroadcast(id: string | undefined): boolean {
    if (!this.#read.broadcast || (id !== undefined && this.#sentIds.has(id))) return false;
    if (id !== undefined && this.#replays) this.#sentIds.add(id);
    return true;
  }

  get receivesPresence(): boolean {
    return this.#showsPresence && this.#read.presence;
  }

  /** Queues a task. A task runs at once if none is waiting. */
  #enqueue({ heldBytes }: Incoming, task: () => Promise<void>): void {
    if (this.#waiting >= MAX_WAITING || !this.hub.waiting.take(heldBytes)) {
      return this.shutDown('Too many messages per second');
    }
    this.#waiting++;
    const run = async () => {
      if (!this.#hasEnded) await task().catch((error: Error) => this.#fail(error));
    };
    const work = (this.#work ?? Promise.resolve())
      .then(run)
      .catch((error: Error) => this.hub.log.error({ err: error, ref: this.hub.tenant.ref }, 'channel shutdown failed'))
      .finally(() => {
        this.#waiting--;
        this.hub.waiting.take(-heldBytes);
        if (this.#work === work) this.#work = undefined;
      });
    this.#work = work;
  }

  #fail(error: Error): void {
    const isDatabase = [ConnectionError, DatabaseError, PoolBusyError].some((kind) => error instanceof kind);
    if (!isDatabase) this.hub.log.error({ err: error, ref: this.hub.tenant.ref }, 'channel failed');
    this.shutDown(isDatabase ? 'Realtime was unable to connect to the project database' : 'Unknown Error on Channel');
  }

  async #join(message: Incoming): Promise<void> {
    let outcome: Refused | undefined;
    try {
      outcome = await this.#enter(message);
    } catch (error) {
      this.hub.log.warn({ why: (error as Error).message, ref: this.hub.tenant.ref }, 'join failed');
      outcome = new Refused('UnableToConnectToProject', 'Realtime was unable to connect to the project database');
    }
    if (this.#state === 'ended') return this.#topic?.remove(this);
    if (outcome === undefined) return this.#joined(message);
    this.connection.reply(message, 'error', { reason: outcome.reason });
    this.end();
  }

  async #enter({ payload, bytes, heldBytes }: Incoming): Promise<Refused | undefined> {
    const config = bytes > MAX_JOIN_BYTES ? `It is larger than ${MAX_JOIN_BYTES} bytes` : readJoin(payload);
    if (typeof config === 'string') return new Refused('InvalidJoinPayload', config);
    if (!this.#hold('join', heldBytes)) return new Refused('ChannelRateLimitReached', 'Too many channels');
    this.#config = config;
    const identity = await this.#verify(config.accessToken);
    if (identity instanceof Refused) return identity;
    await this.hub.ready();
    const denied = await this.#assume(identity, config);
    if (denied) return denied;
    if (this.#hasEnded) return undefined;
    this.#replays = config.broadcast.replay !== undefined;
    this.#topic = this.hub.topic(this.name, config.isPrivate);
    this.#topic.add(this);
    return undefined;
  }

  /** A key of the new form is no token, so the channel has the identity of the socket. */
  #verify(token: string | undefined): Promise<Identity | Refused> | Identity | Refused {
    this.#token = token;
    if (token === undefined || token.startsWith('sb_')) return identityOf(this.connection.caller);
    return verifyToken(this.hub.tokens, this.hub.tenant, token);
  }

  async #assume(identity: Identity, config: JoinConfig): Promise<Refused | undefined> {
    if (config.isPrivate) {
      const read = await mayRead(this.hub.pool, identity, this.name);
      if (!read.broadcast && !read.presence) {
        return new Refused('Unauthorized', `You do not have permissions to read from this Channel topic: ${this.name}`);
      }
      this.#read = read;
    }
    if (this.#hasEnded) return undefined;
    this.#write = config.isPrivate ? undefined : { broadcast: true, presence: true };
    this.#identity = identity;
    clearTimeout(this.#expiry);
    this.#watchExpiry(identity);
    return undefined;
  }

  #watchExpiry(identity: Identity): void {
    const left = identity.expires * 1000 - Date.now();
    this.#expiry = setTimeout(
      () => {
        const expired = expiry(identity);
        if (expired) this.shutDown(expired.message);
        else this.#watchExpiry(identity);
      },
      Math.min(Math.max(left, 0) + 1, LOOK_AT_TOKEN_MS),
    ).unref();
  }

  async #joined(message: Incoming): Promise<void> {
    const config = this.#config as JoinConfig;
    this.#state = 'joined';
    this.connection.reply(message, 'ok', {
      postgres_changes: config.changes.map(({ params, id }) => ({ ...params, id })),
    });
    if (config.broadcast.replay && this.#read.broadcast) await this.#replay(config.broadcast.replay);
    if (this.#hasEnded) return;
    if (config.broadcast.tellsReady) this.system('system', 'ok', 'Replication connection established');
    if (config.presence.enabled) this.#showPresence();
    if (config.changes.length > 0) this.hub.changes.subscribe(this, config.changes);
  }

  async #replay({ since, limit }: { since: number; limit: number }): Promise<void> {
    const messages = await replayed(this.hub.pool, this.name, {
      since,
      limit,
      payloadBytes: this.hub.limits.payloadBytes,
    });
    if (this.#hasEnded) return;
    this.#replays = false;
    for (const { event, payload, id } of messages as DatabaseMessage[]) {
      if (this.#sentIds.has(id)) continue;
      this.#sentIds.add(id);
      const frame = Broadcast.of(this.topic, event, payload, { replayed: true, id }).frame(this.version);
      if (frame) this.send(frame);
    }
  }

  #showPresence(): void {
    this.#showsPresence = true;
    if (!this.#read.presence) return;
    const state = this.#topic?.presence.state() ?? '{}';
    this.send(pushFrame(this.version, { topic: this.topic, event: 'presence_state', joinRef: this.joinRef }, state));
  }

  #leave(message: Incoming): void {
    this.connection.reply(message, 'ok', {});
    this.end('phx_close');
  }

  async #handle(message: Incoming): Promise<void> {
    if (message.event === 'broadcast') {
      await this.#decideWriting();
      this.#broadcastNow(message);
    } else if (message.event === 'presence') await this.#presence(message);
    else if (message.event === 'access_token') await this.#accessToken(message.payload);
  }

  async #decideWriting(): Promise<Allowed> {
    this.#write ??= await mayWrite(this.hub.pool, this.#identity as Identity, this.name);
    return this.#write;
  }

  /** Returns false if the permission is not known yet. */
  #broadcastNow(message: Incoming): boolean {
    if (this.#state !== 'joined' || this.#write === undefined) return false;
    if (!this.#write.broadcast) return true;
    const { self, ack } = (this.#config as JoinConfig).broadcast;
    if (message.bytes > this.hub.limits.payloadBytes) {
      if (ack) this.connection.reply(message, 'error', { reason: 'payload_size_exceeded' });
      return true;
    }
    if (!this.hub.events.tryTake()) {
      this.shutDown('Too many messages per second');
      return true;
    }
    const { payload, json, broadcast } = message;
    if (broadcast) this.#topic?.broadcast(Broadcast.ofUser(this.topic, broadcast), self ? undefined : this);
    else if (typeof payload === 'object' && payload !== null)
      this.#topic?.broadcast(Broadcast.ofJson(this.topic, json), self ? undefined : this);
    if (ack) this.connection.reply(message, 'ok', {});
    return true;
  }

  async #presence(message: Incoming): Promise<void> {
    const { event, payload = {} } = (message.payload ?? {}) as { event?: unknown; payload?: unknown };
    const json = memberOf(message.json, 'payload')?.toString() ?? '{}';
    const before = this.#reserved.presence;
    const kind = typeof event === 'string' ? event.toLowerCase() : '';
    if (!this.hub.presenceEvents.tryTake()) return this.shutDown('Too many presence messages per second');
    if (message.bytes > this.hub.limits.payloadBytes) return this.shutDown('Track message size exceeded');
    if (kind === 'untrack') {
      this.#topic?.untrack(this);
      this.#hold('presence', 0);
    } else if (kind !== 'track') return this.connection.reply(message, 'error', {});
    else if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) {
      return this.connection.reply(message, 'error', { reason: 'Presence track payload must be a map' });
    } else if (!(await this.#decideWriting()).presence) return this.connection.reply(message, 'error', {});
    else if (this.#hasEnded) return;
    else if (!this.#hold('presence', message.bytes)) {
      return this.connection.reply(message, 'error', { reason: 'The project tracks too much' });
    } else if (!this.#topic?.track(this, (this.#config as JoinConfig).presence.key, json)) {
      this.#hold('presence', before);
      return this.connection.reply(message, 'error', { reason: 'The topic tracks too much' });
    }
    this.connection.reply(message, 'ok', {});
    if (kind === 'track' && !this.#showsPresence) this.#showPresence();
  }

  /** Reserves bytes. Returns false if the project's budget has no room. */
  #hold(what: 'join' | 'presence', bytes: number): boolean {
    if (!this.hub.reservedBytes.take(bytes - this.#reserved[what])) return false;
    this.#reserved[what] = bytes;
    return true;
  }

  async #accessToken(payload: unknown): Promise<void> {
    const token = (payload as { access_token?: unknown } | null)?.access_token;
    if (typeof token !== 'string' || token.startsWith('sb_') || token === this.#token) return;
    const identity = await this.#verify(token);
    if (identity instanceof Refused) return this.shutDown(identity.message);
    const before = this.#read;
    const denied = await this.#assume(identity, this.#config as JoinConfig);
    const revoked = (before.broadcast && !this.#read.broadcast) || (before.presence && !this.#read.presence);
    if (denied || revoked) {
      return this.shutDown(`You no longer have permission to read from this Channel topic: ${this.name}`);
    }
  }
}

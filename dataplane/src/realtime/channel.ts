/**
 * One channel of one socket: from phx_join to its end. In: the client's messages, one after another. Out: answers, and
 * what it sends handed to the hub. Decides by its token who it speaks for, and by the policies on `realtime.messages`
 * what it may on a private topic.
 */
import { ConnectionError, DatabaseError, PoolBusyError } from '../sql/pool.js';
import type { Connection } from './connection.js';
import { type Allowed, mayRead, mayWrite } from './database/authorization.js';
import { type DatabaseMessage, replayed } from './database/message-feed.js';
import type { Topic } from './hub.js';
import { expiry, type Identity, identityOf, isRevoked, Refused, verifyToken } from './identity.js';
import { MAX_JOIN_BYTES } from './limits.js';
import type { Frame } from './protocol/frame.js';
import { type JoinWish, readJoin } from './protocol/join.js';
import { Broadcast, type Incoming, pushFrame } from './protocol/messages.js';

/** Messages that wait for one before them to be decided; more is a flood. */
const MAX_WAITING = 100;
/** Node's timers hold no longer; a token is looked at again then. */
const LOOK_AT_TOKEN_MS = 3_600_000;

export class Channel {
  #state: 'joining' | 'joined' | 'ended' = 'joining';
  #wish: JoinWish | undefined;
  #identity: Identity | undefined;
  #token: string | undefined;
  #topic: Topic | undefined;
  #read: Allowed = { broadcast: true, presence: true };
  #write: Allowed | undefined;
  #showsPresence = false;
  #work: Promise<void> | undefined;
  #waiting = 0;
  #expiry: NodeJS.Timeout | undefined;
  /** Messages of the database that were replayed, or came while others were: each is told once. */
  readonly #toldIds = new Set<string>();
  #replays = false;
  /** Bytes of the project's budget. */
  readonly #held = { join: 0, presence: 0 };

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
  /** To be asked after each wait: whoever ended it has let go of all that it had by then. */
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

  /** `frame` is of this channel's topic and version. */
  send(frame: Frame): void {
    this.connection.send(frame);
  }

  push(event: string, payload: object): void {
    this.send(pushFrame(this.version, this.topic, event, JSON.stringify(payload), this.joinRef));
  }

  system(extension: string, status: 'ok' | 'error', message: string): void {
    this.push('system', { extension, status, message, channel: this.name });
  }

  /** Tells why, and ends; after `phx_error` the client joins again by itself. */
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

  /** The project's keys have changed. */
  async review(): Promise<void> {
    const token = this.#token;
    if (token === undefined || token.startsWith('sb_')) return;
    if (await isRevoked(this.hub.tokens, this.hub.tenant, token)) this.shutDown('The token is no longer good');
  }

  receivesBroadcast(id: string | undefined): boolean {
    if (!this.#read.broadcast || (id !== undefined && this.#toldIds.has(id))) return false;
    if (id !== undefined && this.#replays) this.#toldIds.add(id);
    return true;
  }

  get receivesPresence(): boolean {
    return this.#showsPresence && this.#read.presence;
  }

  /** One after another; what is decided at once is done at once. */
  #enqueue({ bytes }: Incoming, task: () => Promise<void>): void {
    if (this.#waiting >= MAX_WAITING || !this.hub.waiting.take(bytes)) {
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
        this.hub.waiting.take(-bytes);
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

  async #enter({ payload, bytes }: Incoming): Promise<Refused | undefined> {
    const wish = bytes > MAX_JOIN_BYTES ? `It is larger than ${MAX_JOIN_BYTES} bytes` : readJoin(payload);
    if (typeof wish === 'string') return new Refused('InvalidJoinPayload', wish);
    if (!this.#hold('join', bytes)) return new Refused('ChannelRateLimitReached', 'Too many channels');
    this.#wish = wish;
    const identity = await this.#verify(wish.accessToken);
    if (identity instanceof Refused) return identity;
    await this.hub.ready();
    const denied = await this.#assume(identity, wish);
    if (denied) return denied;
    if (this.#hasEnded) return undefined;
    this.#replays = wish.broadcast.replay !== undefined;
    this.#topic = this.hub.topic(this.name, wish.isPrivate);
    this.#topic.add(this);
    return undefined;
  }

  /** Keys of the new form are no tokens: who opened the socket speaks. */
  #verify(token: string | undefined): Promise<Identity | Refused> | Identity | Refused {
    this.#token = token;
    if (token === undefined || token.startsWith('sb_')) return identityOf(this.connection.caller);
    return verifyToken(this.hub.tokens, this.hub.tenant, token);
  }

  async #assume(identity: Identity, wish: JoinWish): Promise<Refused | undefined> {
    if (wish.isPrivate) {
      const read = await mayRead(this.hub.pool, identity, this.name);
      if (!read.broadcast && !read.presence) {
        return new Refused('Unauthorized', `You do not have permissions to read from this Channel topic: ${this.name}`);
      }
      this.#read = read;
    }
    if (this.#hasEnded) return undefined;
    this.#write = wish.isPrivate ? undefined : { broadcast: true, presence: true };
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
    const wish = this.#wish as JoinWish;
    this.#state = 'joined';
    this.connection.reply(message, 'ok', {
      postgres_changes: wish.changes.map(({ params, id }) => ({ ...params, id })),
    });
    if (wish.broadcast.replay && this.#read.broadcast) await this.#replay(wish.broadcast.replay);
    if (this.#hasEnded) return;
    if (wish.broadcast.tellsReady) this.system('system', 'ok', 'Replication connection established');
    if (wish.presence.enabled) this.#showPresence();
    if (wish.changes.length > 0) this.hub.changes.subscribe(this, wish.changes);
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
      if (this.#toldIds.has(id)) continue;
      this.#toldIds.add(id);
      const frame = Broadcast.of(this.topic, event, payload, { replayed: true, id }).frame(this.version);
      if (frame) this.send(frame);
    }
  }

  #showPresence(): void {
    this.#showsPresence = true;
    if (!this.#read.presence) return;
    const state = this.#topic?.presence.state() ?? '{}';
    this.send(pushFrame(this.version, this.topic, 'presence_state', state, this.joinRef));
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

  /** False: whether it may is not known yet. */
  #broadcastNow(message: Incoming): boolean {
    if (this.#state !== 'joined' || this.#write === undefined) return false;
    if (!this.#write.broadcast) return true;
    const { self, ack } = (this.#wish as JoinWish).broadcast;
    if (message.bytes > this.hub.limits.payloadBytes) {
      if (ack) this.connection.reply(message, 'error', { reason: 'payload_size_exceeded' });
      return true;
    }
    if (!this.hub.events.take()) {
      this.shutDown('Too many messages per second');
      return true;
    }
    const { payload, broadcast } = message;
    if (broadcast) this.#topic?.broadcast(Broadcast.ofUser(this.topic, broadcast), self ? undefined : this);
    else if (typeof payload === 'object' && payload !== null)
      this.#topic?.broadcast(Broadcast.ofPayload(this.topic, payload), self ? undefined : this);
    if (ack) this.connection.reply(message, 'ok', {});
    return true;
  }

  async #presence(message: Incoming): Promise<void> {
    const { event, payload = {} } = (message.payload ?? {}) as { event?: unknown; payload?: unknown };
    const before = this.#held.presence;
    const kind = typeof event === 'string' ? event.toLowerCase() : '';
    if (!this.hub.presenceEvents.take()) return this.shutDown('Too many presence messages per second');
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
    } else if (!this.#topic?.track(this, (this.#wish as JoinWish).presence.key, payload)) {
      this.#hold('presence', before);
      return this.connection.reply(message, 'error', { reason: 'The topic tracks too much' });
    }
    this.connection.reply(message, 'ok', {});
    if (kind === 'track' && !this.#showsPresence) this.#showPresence();
  }

  /** False: the project's channels hold too much. */
  #hold(what: 'join' | 'presence', bytes: number): boolean {
    if (!this.hub.held.take(bytes - this.#held[what])) return false;
    this.#held[what] = bytes;
    return true;
  }

  async #accessToken(payload: unknown): Promise<void> {
    const token = (payload as { access_token?: unknown } | null)?.access_token;
    if (typeof token !== 'string' || token.startsWith('sb_') || token === this.#token) return;
    const identity = await this.#verify(token);
    if (identity instanceof Refused) return this.shutDown(identity.message);
    const before = this.#read;
    const denied = await this.#assume(identity, this.#wish as JoinWish);
    const revoked = (before.broadcast && !this.#read.broadcast) || (before.presence && !this.#read.presence);
    if (denied || revoked) {
      return this.shutDown(`You no longer have permission to read from this Channel topic: ${this.name}`);
    }
  }
}

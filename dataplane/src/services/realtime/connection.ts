/**
 * One socket of a client. In: messages from `ws`. Out: frames, written directly to the network socket so that one frame
 * serves many clients. Passes each message to its channel. Closes a client that is silent, reads too slowly, or joins
 * too often.
 */
import type { Duplex } from 'node:stream';
import { underWay } from '@slipway/program';
import type { WebSocket } from 'ws';
import { inTurns } from '../../bounds/turns.js';
import type { Caller } from '../../projects/tenant.js';
import { Channel } from './channel.js';
import type { Hub } from './hub.js';
import { isRevoked } from './identity.js';
import {
  FAILED,
  GOING_AWAY,
  IDLE,
  IDLE_MS,
  MAX_BUFFERED_BYTES,
  REVOKED,
  SLOW_CLIENT,
  TOO_MANY_JOINS,
  TOO_MANY_LARGE,
} from './limits.js';
import type { Frame } from './protocol/frame.js';
import { decodeLargeMessage, decodeMessage, type Incoming, replyFrame, type Version } from './protocol/messages.js';

const TOPIC_PREFIX = 'realtime:';
/** Maximum bytes of a message that is decoded at once, which takes a millisecond or two. */
const AT_ONCE_BYTES = 64 * 1024;
/** Maximum milliseconds of the close handshake, because a client that does not read ignores it. */
const CLOSE_PATIENCE_MS = 2_000;

/** Caller whose API key opened the socket, the key, and the protocol version. */
export interface Opener {
  version: Version;
  caller: Caller;
  token: string | undefined;
}

export class Connection {
  readonly #channels = new Map<string, Channel>();
  #heardAt = performance.now();
  #closing = false;
  /** True while a large message is decoded. */
  #decoding: Promise<void> | undefined;

  constructor(
    readonly hub: Hub,
    private readonly opener: Opener,
    private readonly webSocket: WebSocket,
    private readonly socket: Duplex,
  ) {
    const { version } = opener;
    webSocket.on('message', (received, isBinary) => {
      const data = received as Buffer;
      if (this.#decoding || data.length > AT_ONCE_BYTES) this.#decodeInTurns(data, isBinary);
      else this.#handle(() => decodeMessage(version, data, isBinary));
    });
    // The close event follows, which handles it.
    webSocket.on('error', () => undefined);
    webSocket.on('close', () => this.#onClose());
  }

  get version(): Version {
    return this.opener.version;
  }

  get channels(): number {
    return this.#channels.size;
  }

  /** Identity of channels that send no token. */
  get caller(): Caller {
    return this.opener.caller;
  }

  /** Closes channels and socket whose credentials the project's changed keys no longer accept. */
  async review(): Promise<void> {
    const { token } = this.opener;
    if (token !== undefined && (await isRevoked(this.hub.tokens, this.hub.tenant, token))) {
      this.close(REVOKED);
      return;
    }
    for (const channel of [...this.#channels.values()]) await channel.review();
  }

  send(frame: Frame): void {
    if (this.#closing) return;
    const waiting = this.socket.writableLength;
    if (waiting > 0 && waiting + frame.length > MAX_BUFFERED_BYTES) this.close(SLOW_CLIENT);
    else this.socket.write(frame);
  }

  close({ code, reason }: { code: number; reason: string }): void {
    if (this.#closing) return;
    this.#closing = true;
    this.webSocket.close(code, reason);
    this.#endChannels();
    setTimeout(() => this.webSocket.terminate(), CLOSE_PATIENCE_MS).unref();
  }

  leave(): void {
    this.close(GOING_AWAY);
  }

  /** Checks the client; called at intervals. */
  closeIfSilent(): void {
    if (performance.now() - this.#heardAt > IDLE_MS) this.close(IDLE);
  }

  /** Removes a channel that has ended by itself. */
  forget(channel: Channel): void {
    if (this.#channels.get(channel.topic) === channel) this.#channels.delete(channel.topic);
  }

  #handle(decode: () => Incoming | undefined): void {
    underWay(this.hub.tenant.ref, 'realtime message');
    try {
      this.#onMessage(decode);
    } catch (error) {
      // Rethrown, it would end this process, with the sockets of all projects.
      this.hub.log.error({ err: error, ref: this.hub.tenant.ref }, 'message not processed');
      this.close(FAILED);
    }
  }

  /** Messages that arrive during the decoding: few, because the socket is paused. */
  #decodeInTurns(data: Buffer, isBinary: boolean): void {
    if (!this.hub.waiting.take(data.length)) return this.close(TOO_MANY_LARGE);
    this.webSocket.pause();
    const decode = async () => {
      if (this.#closing) return;
      const steps = decodeLargeMessage(this.version, data, isBinary);
      const message = await inTurns(this.hub.tenant.ref, steps);
      this.#handle(() => message);
    };
    const work = (this.#decoding ?? Promise.resolve())
      .then(decode)
      .catch(() => this.close(TOO_MANY_LARGE))
      .finally(() => {
        this.hub.waiting.take(-data.length);
        if (this.#decoding !== work) return;
        this.#decoding = undefined;
        this.webSocket.resume();
      });
    this.#decoding = work;
  }

  #onMessage(decode: () => Incoming | undefined): void {
    if (this.#closing) return;
    this.#heardAt = performance.now();
    const message = decode();
    // Closes the socket on an invalid message, as upstream does; the client reconnects.
    if (message === undefined) return this.close({ code: 1007, reason: 'not a message of this protocol' });
    if (message.topic === 'phoenix') {
      if (message.event === 'heartbeat') this.reply(message, 'ok', {});
    } else if (message.event === 'phx_join') this.#join(message);
    else {
      const channel = this.#channels.get(message.topic);
      if (channel !== undefined) channel.take(message);
      else if (message.event === 'phx_leave') this.reply(message, 'ok', {});
      else this.reply(message, 'error', { reason: 'unmatched topic' });
    }
  }

  reply(message: Incoming, status: 'ok' | 'error', response: object): void {
    this.send(replyFrame(this.version, message, status, response));
  }

  #join(message: Incoming): void {
    const { topic } = message;
    if (!topic.startsWith(TOPIC_PREFIX)) return this.reply(message, 'error', { reason: 'unmatched topic' });
    if (topic.length === TOPIC_PREFIX.length) {
      return this.reply(message, 'error', { reason: 'TopicNameRequired: You must provide a topic name' });
    }
    if (topic.includes('\0') || topic.length > 255) {
      return this.reply(message, 'error', {
        reason: 'TopicNameInvalid: A topic has at most 255 characters and no NUL',
      });
    }
    // A client that joins a topic again no longer uses its earlier channel.
    this.#channels.get(topic)?.end('phx_close');
    const refused = this.hub.admit(this);
    if (refused) {
      this.reply(message, 'error', { reason: refused.reason });
      if (refused.code === 'ClientJoinRateLimitReached') this.close(TOO_MANY_JOINS);
      return;
    }
    const channel = new Channel(this, topic, topic.slice(TOPIC_PREFIX.length), message.joinRef ?? message.ref);
    this.#channels.set(topic, channel);
    channel.join(message);
  }

  #onClose(): void {
    this.#closing = true;
    this.#endChannels();
    this.hub.removeConnection(this);
  }

  #endChannels(): void {
    for (const channel of [...this.#channels.values()]) channel.end();
    this.#channels.clear();
  }
}

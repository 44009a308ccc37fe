/**
 * One socket of one client. In: what `ws` reads. Out: frames, written whole to the network socket so that one frame
 * serves many clients. Hands each message to its channel; closes a client that is silent, reads too slowly, or joins
 * too often.
 */
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Caller } from '../tenant.js';
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
} from './limits.js';
import type { Frame } from './protocol/frame.js';
import { decodeMessage, type Incoming, replyFrame, type Version } from './protocol/messages.js';

const TOPIC_PREFIX = 'realtime:';
/** A peer that does not read does not read that it is closed either. */
const CLOSE_PATIENCE_MS = 2_000;

/** The caller whose API key opened the socket, and that key. */
export interface Opener {
  caller: Caller;
  token: string | undefined;
}

export class Connection {
  readonly #channels = new Map<string, Channel>();
  #heardAt = performance.now();
  #closing = false;

  constructor(
    readonly hub: Hub,
    readonly version: Version,
    private readonly opener: Opener,
    private readonly webSocket: WebSocket,
    private readonly socket: Duplex,
  ) {
    webSocket.on('message', (data, isBinary) => {
      try {
        this.#onMessage(data as Buffer, isBinary);
      } catch (error) {
        // Thrown on, it would end this process, with the sockets of all projects.
        hub.log.error({ err: error, ref: hub.tenant.ref }, 'message not processed');
        this.close(FAILED);
      }
    });
    // Its close follows, which is where it is handled.
    webSocket.on('error', () => undefined);
    webSocket.on('close', () => this.#onClose());
  }

  get channels(): number {
    return this.#channels.size;
  }

  /** The identity of channels that bring no token. */
  get caller(): Caller {
    return this.opener.caller;
  }

  /** The project's keys have changed: what they no longer open ends. */
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

  /** Asked now and then. */
  closeIfSilent(): void {
    if (performance.now() - this.#heardAt > IDLE_MS) this.close(IDLE);
  }

  /** A channel that has ended by itself. */
  forget(channel: Channel): void {
    if (this.#channels.get(channel.topic) === channel) this.#channels.delete(channel.topic);
  }

  #onMessage(data: Buffer, isBinary: boolean): void {
    if (this.#closing) return;
    this.#heardAt = performance.now();
    const message = decodeMessage(this.version, data, isBinary);
    // Upstream's socket fails on what it can't read; the client comes again.
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
    // A client that joins again has forgotten the first.
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

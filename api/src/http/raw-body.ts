/** Reads the body of a route whose bytes Fastify leaves to the handler (`BODY_UNREAD` of `adapter.ts`). */
import type { IncomingMessage } from 'node:http';
import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import { callerGone, callerSignal } from './caller-signal.js';
import { Problem } from './problem.js';

export interface UnreadBody {
  /** Content type in lower case, without parameters. */
  contentType: string | undefined;
  /** Declared length; undefined for a chunked body. */
  bytes: number | undefined;
  /** Aborts if the caller disconnects before the response. */
  signal: AbortSignal;
  /** Reads until the end, or until more than `bytes` were received. Returns true at the end. */
  readUpTo(bytes: number): Promise<boolean>;
  /** Returns the whole body. Fails with a 413, or with a 408 if the rest takes longer than `milliseconds`. */
  read(mostBytes: number, milliseconds?: number): Promise<Buffer>;
}

/** Injects the reader of the body into a handler. */
export const RawBody = createParamDecorator((_: unknown, context: ExecutionContext): UnreadBody => {
  const { raw } = context.switchToHttp().getRequest<FastifyRequest>();
  // The adapter removes these headers from `headers`; `headersDistinct` still has them.
  const sent = raw.headersDistinct;
  const isChunked = sent['transfer-encoding'] !== undefined;
  const chunks = new BodyChunks(raw);
  return {
    contentType: sent['content-type']?.[0]?.split(';', 1)[0]?.trim().toLowerCase(),
    bytes: isChunked ? undefined : Number(sent['content-length']?.[0] ?? 0),
    signal: callerSignal(context),
    readUpTo: (bytes) => chunks.readUpTo(bytes),
    read: (mostBytes, milliseconds) => chunks.read(mostBytes, milliseconds),
  };
});

/** Reads a body in parts. Between two reads nothing is received, which is backpressure on the caller. */
export class BodyChunks {
  private readonly source: AsyncIterableIterator<Buffer>;
  private readonly chunks: Buffer[] = [];
  private bytes = 0;
  private isLate = false;

  constructor(private readonly incoming: IncomingMessage) {
    this.source = incoming.iterator({ destroyOnReturn: false });
  }

  async readUpTo(bytes: number): Promise<boolean> {
    // A connection that has closed emits no further event.
    if (this.incoming.destroyed && !this.incoming.readableEnded) throw callerGone();
    while (!this.isLate && this.bytes <= bytes) {
      const { done, value } = await this.source.next().catch(() => {
        throw callerGone();
      });
      if (done) return true;
      this.bytes += value.length;
      this.chunks.push(value);
    }
    return false;
  }

  async read(mostBytes: number, milliseconds = 0): Promise<Buffer> {
    const isWhole = await this.inTime(this.readUpTo(mostBytes), milliseconds);
    if (isWhole) return Buffer.concat(this.chunks);
    this.chunks.length = 0;
    // The rest is received and dropped: a caller whose connection closed would not see the response.
    await this.source.return?.();
    this.incoming.resume();
    throw bodyTooLarge(mostBytes);
  }

  private async inTime(reading: Promise<boolean>, milliseconds: number): Promise<boolean> {
    if (milliseconds === 0) return reading;
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      this.isLate = true;
      this.chunks.length = 0;
      const detail = `The body was not sent within ${milliseconds / 1000} seconds.`;
      late.reject(new Problem('request_too_slow', detail, { headers: { connection: 'close' } }));
    }, milliseconds);
    reading.catch(() => undefined);
    return Promise.race([reading, late.promise]).finally(() => clearTimeout(timer));
  }
}

export const bodyTooLarge = (mostBytes: number) =>
  new Problem('body_too_large', `The body is larger than ${mostBytes} bytes, the most that this route reads.`);

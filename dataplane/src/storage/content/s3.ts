/**
 * Content in a bucket of any S3: `<ref>/<version>`. What comes with a length is streamed on; what comes without, or in
 * parts, is gathered in a local folder first.
 */

import { createReadStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import {
  CopyObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  type ListObjectsV2CommandInput,
  type ListObjectsV2CommandOutput,
  PutObjectCommand,
  S3Client,
  type S3ServiceException,
} from '@aws-sdk/client-s3';
import { noSuchKey, tooLarge } from '../errors.js';
import {
  type ByteRange,
  type ContentPlace,
  type ContentStore,
  checkedPlace,
  checkedRef,
  isVersion,
  REF,
  type StoredVersion,
} from './content.js';
import { type FileStore, spool } from './files.js';
import { brokenOff, counted, isBroken } from './pump.js';

export interface S3Settings {
  bucket: string;
  region: string;
  /** Undefined: Amazon's. */
  endpoint: string | undefined;
  accessKeyId: string;
  secretAccessKey: string;
}

const CONNECT_MS = 5_000;
/**
 * Timeout of a connection on which nothing moves: longer than the gateway's for a client, behind which content may
 * wait.
 */
const STILL_MS = 120_000;

/** Keys that one request to S3 may delete. */
const DELETE_AT_ONCE = 1000;

export class S3Store implements ContentStore {
  readonly isLocal = false;
  readonly #client: S3Client;
  readonly #bucket: string;

  constructor(
    { bucket, region, endpoint, accessKeyId, secretAccessKey }: S3Settings,
    /** Where uploads are gathered whose length isn't known. */
    private readonly local: FileStore,
  ) {
    this.#bucket = bucket;
    this.#client = new S3Client({
      region,
      credentials: { accessKeyId, secretAccessKey },
      // Others than Amazon may neither know host names of buckets nor the newer checksums.
      ...(endpoint ? { endpoint, forcePathStyle: true } : {}),
      requestHandler: { connectionTimeout: CONNECT_MS, socketTimeout: STILL_MS },
      // What fails is thrown; it writes to no console of ours.
      logger: { debug() {}, info() {}, warn() {}, error() {} },
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
    });
  }

  async write(place: ContentPlace, source: Readable, limit: number, length?: number): Promise<number> {
    source.once('error', () => undefined);
    if (length === undefined) {
      const file = await this.local.temporary(place);
      try {
        const size = await spool(source, file, limit);
        await this.adopt(place, file);
        return size;
      } finally {
        await rm(file, { force: true });
      }
    }
    if (length > limit) throw tooLarge();
    if (isBroken(source)) throw brokenOff();
    await this.#put(place, source.pipe(counted(length)), length, endOf(source));
    return length;
  }

  async adopt(place: ContentPlace, file: string): Promise<void> {
    checkedPlace(place);
    const { size } = await stat(file);
    await this.#put(place, createReadStream(file), size);
    await rm(file, { force: true });
  }

  async has(place: ContentPlace): Promise<boolean> {
    try {
      await this.#client.send(new HeadObjectCommand({ Bucket: this.#bucket, Key: keyOf(place) }));
      return true;
    } catch (error) {
      if ((error as S3ServiceException).$metadata?.httpStatusCode === 404) return false;
      throw error;
    }
  }

  async read(place: ContentPlace, range?: ByteRange): Promise<Readable> {
    try {
      const { Body } = await this.#client.send(
        new GetObjectCommand({
          Bucket: this.#bucket,
          Key: keyOf(place),
          ...(range ? { Range: `bytes=${range.start}-${range.end}` } : {}),
        }),
      );
      return Body as Readable;
    } catch (error) {
      // Of what is empty, S3 refuses any range.
      if ((error as Error).name === 'InvalidRange') return Readable.from([]);
      throw asNoSuchKey(error);
    }
  }

  async copy(from: ContentPlace, to: ContentPlace): Promise<void> {
    const CopySource = `${this.#bucket}/${keyOf(from)}`;
    try {
      await this.#client.send(new CopyObjectCommand({ Bucket: this.#bucket, Key: keyOf(to), CopySource }));
    } catch (error) {
      throw asNoSuchKey(error);
    }
  }

  async remove(ref: string, versions: readonly string[]): Promise<void> {
    const ours = versions.filter(isVersion);
    for (let at = 0; at < ours.length; at += DELETE_AT_ONCE) {
      const Objects = ours.slice(at, at + DELETE_AT_ONCE).map((version) => ({ Key: keyOf({ ref, version }) }));
      await this.#client.send(new DeleteObjectsCommand({ Bucket: this.#bucket, Delete: { Objects, Quiet: true } }));
    }
  }

  async *versions(ref: string): AsyncIterable<StoredVersion> {
    for await (const { Contents = [] } of this.#pages({ Prefix: `${checkedRef(ref)}/` })) {
      for (const { Key = '', LastModified } of Contents) {
        const version = Key.slice(ref.length + 1);
        if (isVersion(version)) yield { version, modified: LastModified?.getTime() ?? Infinity };
      }
    }
  }

  async *refs(): AsyncIterable<string> {
    for await (const { CommonPrefixes = [] } of this.#pages({ Delimiter: '/' })) {
      for (const { Prefix = '' } of CommonPrefixes) {
        const ref = Prefix.slice(0, -1);
        if (REF.test(ref) && (await this.#hasContent(ref))) yield ref;
      }
    }
  }

  async removeProject(ref: string): Promise<void> {
    let versions: string[] = [];
    for await (const { version } of this.versions(ref)) {
      versions.push(version);
      if (versions.length < DELETE_AT_ONCE) continue;
      await this.remove(ref, versions);
      versions = [];
    }
    await this.remove(ref, versions);
  }

  async #hasContent(ref: string): Promise<boolean> {
    const { Contents = [] } = await this.#list({ Prefix: `${ref}/` });
    return Contents.some(({ Key = '' }) => isVersion(Key.slice(ref.length + 1)));
  }

  async *#pages(asked: Partial<ListObjectsV2CommandInput>): AsyncIterable<ListObjectsV2CommandOutput> {
    let ContinuationToken: string | undefined;
    do {
      const page = await this.#list({ ...asked, ContinuationToken });
      yield page;
      ContinuationToken = page.NextContinuationToken;
    } while (ContinuationToken !== undefined);
  }

  #list(asked: Partial<ListObjectsV2CommandInput>): Promise<ListObjectsV2CommandOutput> {
    return this.#client.send(new ListObjectsV2Command({ Bucket: this.#bucket, ...asked }));
  }

  async #put(place: ContentPlace, body: Readable, length: number, abortSignal?: AbortSignal): Promise<void> {
    await this.#client.send(
      new PutObjectCommand({ Bucket: this.#bucket, Key: keyOf(place), Body: body, ContentLength: length }),
      abortSignal ? { abortSignal } : {},
    );
  }
}

/** A source that breaks off ends the request that carries it on, so that no half object is kept. */
function endOf(source: Readable): AbortSignal {
  const control = new AbortController();
  source.once('close', () => {
    if (!source.readableEnded) control.abort(brokenOff());
  });
  return control.signal;
}

function keyOf(place: ContentPlace): string {
  const { ref, version } = checkedPlace(place);
  return `${ref}/${version}`;
}

const asNoSuchKey = (error: unknown) => ((error as Error).name === 'NoSuchKey' ? noSuchKey() : error);

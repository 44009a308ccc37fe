/**
 * Content in a bucket of any S3: `<ref>/<version>`. Content of a known length is streamed. Content of unknown length,
 * or in parts, is first written to a local folder.
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
  type ContentBounds,
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
  /** URL of the S3 server. Undefined: Amazon's. */
  endpoint: string | undefined;
  accessKeyId: string;
  secretAccessKey: string;
}

const CONNECT_MS = 5_000;
/**
 * Milliseconds without progress after which a connection is closed. They are more than the gateway's timeout for a
 * client, because the content may wait for that client.
 */
const STILL_MS = 120_000;

/** Maximum number of keys in one delete request to S3. */
const DELETE_AT_ONCE = 1000;

export class S3Store implements ContentStore {
  readonly isLocal = false;
  readonly #client: S3Client;
  readonly #bucket: string;

  constructor(
    { bucket, region, endpoint, accessKeyId, secretAccessKey }: S3Settings,
    /** Local folder for uploads of unknown length. */
    private readonly local: FileStore,
  ) {
    this.#bucket = bucket;
    this.#client = new S3Client({
      region,
      credentials: { accessKeyId, secretAccessKey },
      // Other S3 servers may support neither host names for buckets nor the newer checksums.
      ...(endpoint ? { endpoint, forcePathStyle: true } : {}),
      requestHandler: { connectionTimeout: CONNECT_MS, socketTimeout: STILL_MS },
      // Errors are thrown; the client must not write to the console.
      logger: { debug() {}, info() {}, warn() {}, error() {} },
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
    });
  }

  async write(place: ContentPlace, source: Readable, { limit, length, grow }: ContentBounds): Promise<number> {
    source.once('error', () => undefined);
    if (length === undefined) {
      const file = await this.local.temporary(place);
      try {
        const size = await spool(source, file, limit, grow);
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

  async size(place: ContentPlace): Promise<number> {
    try {
      const command = new HeadObjectCommand({ Bucket: this.#bucket, Key: keyOf(place) });
      return (await this.#client.send(command)).ContentLength ?? 0;
    } catch (error) {
      throw (error as S3ServiceException).$metadata?.httpStatusCode === 404 ? noSuchKey() : error;
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
      // S3 rejects any range of an empty object.
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

  async remove(ref: string, versions: readonly string[]): Promise<undefined> {
    const ours = versions.filter(isVersion);
    for (let at = 0; at < ours.length; at += DELETE_AT_ONCE) {
      const Objects = ours.slice(at, at + DELETE_AT_ONCE).map((version) => ({ Key: keyOf({ ref, version }) }));
      await this.#client.send(new DeleteObjectsCommand({ Bucket: this.#bucket, Delete: { Objects, Quiet: true } }));
    }
  }

  async *versions(ref: string): AsyncIterable<StoredVersion> {
    for await (const { Contents = [] } of this.#pages({ Prefix: `${checkedRef(ref)}/` })) {
      for (const { Key = '', LastModified, Size = 0 } of Contents) {
        const version = Key.slice(ref.length + 1);
        if (isVersion(version)) yield { version, modified: LastModified?.getTime() ?? Infinity, bytes: Size };
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

  async *#pages(input: Partial<ListObjectsV2CommandInput>): AsyncIterable<ListObjectsV2CommandOutput> {
    let ContinuationToken: string | undefined;
    do {
      const page = await this.#list({ ...input, ContinuationToken });
      yield page;
      ContinuationToken = page.NextContinuationToken;
    } while (ContinuationToken !== undefined);
  }

  #list(input: Partial<ListObjectsV2CommandInput>): Promise<ListObjectsV2CommandOutput> {
    return this.#client.send(new ListObjectsV2Command({ Bucket: this.#bucket, ...input }));
  }

  async #put(place: ContentPlace, body: Readable, length: number, abortSignal?: AbortSignal): Promise<void> {
    await this.#client.send(
      new PutObjectCommand({ Bucket: this.#bucket, Key: keyOf(place), Body: body, ContentLength: length }),
      abortSignal ? { abortSignal } : {},
    );
  }
}

/** Destroys the request when its source fails, so that no partial object is stored. */
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

/**
 * Storage service with storage-js' API. In: authenticated requests from the gateway. Out: responses and errors in
 * Supabase's format. Rows in the project's database describe objects and owners; bytes are in the content store.
 */
import type { statfs } from 'node:fs/promises';
import path from 'node:path';
import type { Plan } from '@slipway/crds';
import type { Logger } from 'pino';
import type { BackendTenant } from '../../projects/tenant.js';
import type { Service, ServiceRequest } from '../service.js';
import { createBucket, deleteBucket, emptyBucket, listBuckets, readBucket, updateBucket } from './buckets.js';
import { copy, move, removeMany, removeOne } from './changes.js';
import { collect } from './collect.js';
import type { ContentStore } from './content/content.js';
import { FileStore } from './content/files.js';
import { type S3Settings, S3Store } from './content/s3.js';
import { storageDatabases } from './database.js';
import { DiskReserve } from './disk-reserve.js';
import { download, info } from './download.js';
import { noSuchRoute, StorageError, storageError } from './errors.js';
import { ImageTurns } from './image-turns.js';
import { render } from './images.js';
import { list, listFrom } from './list.js';
import { checkedBucket, decoded, placeOf, signedPlaceOf } from './names.js';
import { openBytes } from './partial-uploads.js';
import { Resumable } from './resumable.js';
import { ForeignIdLog } from './row-content.js';
import { sign, signMany } from './sign.js';
import { answer, type StorageContext, type StorageLimits } from './storage-context.js';
import { signUpload, upload, uploadSigned } from './upload.js';
import { UploadsAtOnce } from './uploads-at-once.js';
import { StorageUsage } from './usage.js';

export interface StorageOptions {
  /** Folder of content, or of incomplete uploads if content is in S3. */
  directory: string;
  s3?: S3Settings | undefined;
  limits?: Partial<StorageLimits>;
  /** Quota in bytes by plan. Default: those of the plans. */
  quotas?: Readonly<Record<Plan, number>>;
  /** Measures the disk, for tests. */
  statfs?: typeof statfs;
  /** Existing projects, once all are known: files of others are removed after a while. */
  projects?: { tenant(ref: string): BackendTenant | undefined; complete(): boolean };
  log: Logger;
}

const GIB = 1024 ** 3;
const LIMITS: StorageLimits = {
  fileBytes: 5 * GIB,
  uploadsAtOnce: 200,
  openUploads: 1000,
  openUploadBytes: 100 * GIB,
};

const COLLECT_MS = 3600 * 1000;

/** Route: its method, the prefix of its path, and its handler, which gets the rest of the path. */
type Route = readonly [method: string, prefix: string, (context: StorageContext, rest: string) => Promise<void> | void];

const ROUTES: readonly Route[] = [
  ['GET', '/status', status],
  ['POST', '/bucket', createBucket],
  ['GET', '/bucket', listBuckets],
  ['POST', '/bucket/*/empty', (context, id) => emptyBucket(context, checkedBucket(decoded(id)))],
  ['GET', '/bucket/', (context, id) => readBucket(context, checkedBucket(decoded(id)))],
  ['PUT', '/bucket/', (context, id) => updateBucket(context, checkedBucket(decoded(id)))],
  ['DELETE', '/bucket/', (context, id) => deleteBucket(context, checkedBucket(decoded(id)))],
  ['POST', '/object/move', move],
  ['POST', '/object/copy', copy],
  ['POST', '/object/list-v2/', (context, rest) => listFrom(context, checkedBucket(decoded(rest)))],
  ['POST', '/object/list/', (context, rest) => list(context, checkedBucket(decoded(rest)))],
  ['POST', '/object/upload/sign/', (context, rest) => signUpload(context, placeOf(rest))],
  ['PUT', '/object/upload/sign/', (context, rest) => uploadSigned(context, signedPlaceOf(rest))],
  [
    'POST',
    '/object/sign/',
    (context, rest) =>
      rest.includes('/') ? sign(context, placeOf(rest)) : signMany(context, checkedBucket(decoded(rest))),
  ],
  ['GET', '/object/sign/', (context, rest) => download(context, signedPlaceOf(rest), 'signed')],
  ['GET', '/object/public/', (context, rest) => download(context, placeOf(rest), 'public')],
  ['GET', '/object/authenticated/', (context, rest) => download(context, placeOf(rest), 'authenticated')],
  ['GET', '/object/info/public/', (context, rest) => info(context, placeOf(rest), 'public')],
  ['GET', '/object/info/authenticated/', (context, rest) => info(context, placeOf(rest), 'authenticated')],
  ['GET', '/object/info/', (context, rest) => info(context, placeOf(rest), 'authenticated')],
  ['GET', '/render/image/public/', (context, rest) => render(context, placeOf(rest), 'public')],
  ['GET', '/render/image/authenticated/', (context, rest) => render(context, placeOf(rest), 'authenticated')],
  ['GET', '/render/image/sign/', (context, rest) => render(context, signedPlaceOf(rest), 'signed')],
  ['POST', '/object/', (context, rest) => upload(context, placeOf(rest))],
  ['PUT', '/object/', (context, rest) => upload(context, placeOf(rest))],
  ['GET', '/object/', (context, rest) => download(context, placeOf(rest), 'authenticated')],
  [
    'DELETE',
    '/object/',
    (context, rest) =>
      rest.includes('/') ? removeOne(context, placeOf(rest)) : removeMany(context, checkedBucket(decoded(rest))),
  ],
];

export function createStorageService({
  directory,
  s3,
  limits: overrides,
  quotas,
  statfs,
  projects,
  log,
}: StorageOptions): Service {
  const files = new FileStore(directory);
  const content: ContentStore = s3 ? new S3Store(s3, files) : files;
  const databases = storageDatabases();
  const limits = { ...LIMITS, ...overrides };
  const resumable = new Resumable(files, limits, log);
  const uploads = new UploadsAtOnce(limits.uploadsAtOnce);
  const images = new ImageTurns();
  const foreignIds = new ForeignIdLog(log);
  const usage = new StorageUsage((ref) => bytesOf(content, files, ref), new DiskReserve(directory, statfs), quotas);
  let collecting = Promise.resolve();
  const collector = setInterval(() => {
    if (!projects?.complete()) return;
    const { tenant } = projects;
    const work = () => collect({ content, files, databases, usage, tenant, log, now: Date.now() });
    collecting = collecting.then(work).catch((error: unknown) => log.warn({ err: error }, 'content collection failed'));
  }, COLLECT_MS).unref();

  async function dispatch(request: ServiceRequest): Promise<void> {
    const query = new URLSearchParams(request.query);
    const shared = { databases, content, limits, uploads, usage, images, foreignIds };
    const context: StorageContext = { request, query, ...shared };
    if (resumable.isAt(request.path)) return resumable.handle(context);
    const method = request.incoming.method === 'HEAD' ? 'GET' : request.incoming.method;
    for (const [routeMethod, prefix, handle] of ROUTES) {
      const rest = method === routeMethod ? restOf(request.path, prefix) : undefined;
      if (rest !== undefined) return handle(context, rest);
    }
    throw noSuchRoute();
  }

  return {
    handle: (request) =>
      dispatch(request).catch((error: unknown) => {
        const known = storageError(error);
        if (!(known instanceof StorageError)) throw error;
        if (known.status >= 500) log.warn({ err: error, requestId: request.requestId }, 'storage request failed');
        refuse(request, known);
      }),
    forget: (ref) => {
      usage.forget(ref);
      return databases.forget(ref);
    },
    close: async () => {
      clearInterval(collector);
      foreignIds.close();
      await databases.close();
    },
  };
}

async function status(context: StorageContext): Promise<void> {
  const { caller, tenant } = context.request;
  // A caller with the published anon key may not see the usage.
  const usage = caller.role === 'service_role' ? { usage: await context.usage.of(tenant) } : {};
  answer(context, { status: 'ok', ...usage });
}

async function bytesOf(content: ContentStore, files: FileStore, ref: string): Promise<number> {
  let bytes = await openBytes(path.join(files.folder, ref));
  for await (const version of content.versions(ref)) bytes += version.bytes;
  return bytes;
}

/** Returns the path after the prefix, or the text at its `*`; undefined if the path does not match. */
function restOf(path: string, prefix: string): string | undefined {
  const star = prefix.indexOf('*');
  if (star !== -1) {
    const [before, after] = [prefix.slice(0, star), prefix.slice(star + 1)];
    if (!path.startsWith(before) || !path.endsWith(after)) return undefined;
    const between = path.slice(before.length, -after.length);
    return between === '' || between.includes('/') ? undefined : between;
  }
  if (prefix.endsWith('/')) return path.startsWith(prefix) ? path.slice(prefix.length) : undefined;
  return path === prefix || path === `${prefix}/` ? '' : undefined;
}

function refuse({ incoming, outgoing, note }: ServiceRequest, error: StorageError): void {
  note?.(error.code);
  if (outgoing.headersSent) {
    outgoing.destroy();
    return;
  }
  const text = JSON.stringify(error.body);
  outgoing.writeHead(error.httpStatus, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(text),
    ...(error.retryAfterSeconds === undefined ? {} : { 'Retry-After': String(error.retryAfterSeconds) }),
    // Closes the connection instead of reading the rest of a rejected upload.
    ...(incoming.complete ? {} : { Connection: 'close' }),
  });
  outgoing.end(incoming.method === 'HEAD' ? undefined : text);
}

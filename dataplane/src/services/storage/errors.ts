/** Errors of storage, in Supabase's format: a code, a status in the body, and a message. */
import { AnswerTooLargeError, ConnectionError, DatabaseError, isServerShort, PoolBusyError } from '../../sql/errors.js';

interface StorageErrorMore {
  /** Name in the body. Default: the code. */
  error?: string;
  retryAfterSeconds?: number;
}

export class StorageError extends Error {
  readonly error: string;
  readonly retryAfterSeconds: number | undefined;

  constructor(
    /** Status in the body. Most are sent as HTTP 400, as old clients expect. */
    readonly status: number,
    readonly code: string,
    message: string,
    more: StorageErrorMore = {},
  ) {
    super(message);
    this.error = more.error ?? code;
    this.retryAfterSeconds = more.retryAfterSeconds;
  }

  get httpStatus(): number {
    return this.status >= 500 || this.status === 413 || this.status === 429 ? this.status : 400;
  }

  get body(): object {
    return { statusCode: String(this.status), error: this.error, message: this.message, code: this.code };
  }
}

export const noSuchBucket = () =>
  new StorageError(404, 'NoSuchBucket', 'Bucket not found', { error: 'Bucket not found' });
export const noSuchKey = () => new StorageError(404, 'NoSuchKey', 'Object not found', { error: 'not_found' });
export const noSuchRoute = () =>
  new StorageError(404, 'InvalidRequest', 'There is no such route', { error: 'not_found' });
export const invalidKey = (key: string) =>
  new StorageError(400, 'InvalidKey', `Invalid key: ${JSON.stringify(key.slice(0, 100)).slice(1, -1)}`);
export const invalidBucketName = () =>
  new StorageError(400, 'InvalidBucketName', 'Bucket name invalid', { error: 'Invalid Input' });
export const invalidRequest = (message: string) => new StorageError(400, 'InvalidRequest', message);
export const accessDenied = (message = 'new row violates row-level security policy') =>
  new StorageError(403, 'AccessDenied', message, { error: 'Unauthorized' });
const alreadyExists = () =>
  new StorageError(409, 'ResourceAlreadyExists', 'The resource already exists', { error: 'Duplicate' });
export const bucketNotEmpty = () =>
  new StorageError(409, 'ResourceNotEmpty', 'The bucket you tried to delete is not empty');
export const tooLarge = () =>
  new StorageError(413, 'EntityTooLarge', 'The object exceeded the maximum allowed size', {
    error: 'Payload too large',
  });
export const invalidMimeType = (type: string) =>
  new StorageError(415, 'InvalidMimeType', `mime type ${type} is not supported`, { error: 'invalid_mime_type' });
export const tooManyUploads = (most: number) =>
  new StorageError(
    429,
    'TooManyRequests',
    `This project has reached its limit of ${most} concurrent uploads (uploadsAtOnce); try again in a moment`,
    { error: 'too_many_requests', retryAfterSeconds: 5 },
  );
export const tooManyOpenUploads = (most: number) =>
  new StorageError(
    429,
    'TooManyRequests',
    `This project has reached its limit of ${most} open resumable uploads (openUploads); ` +
      'end some by DELETE, or wait until they expire, a day after they began',
    { error: 'too_many_requests' },
  );
/** Status on which clients of resumable uploads wait and retry. */
export const notYetFinished = () =>
  new StorageError(423, 'ResourceLocked', 'The upload is complete but not yet an object; try again in a moment');
export const tooManyOpenBytes = (most: number) =>
  new StorageError(
    429,
    'TooManyRequests',
    `The open resumable uploads of this project would exceed their limit of ${most} bytes (openUploadBytes); ` +
      'end some by DELETE, or wait until they expire, a day after they began',
    { error: 'too_many_requests' },
  );
export const invalidToken = (message: string) => new StorageError(400, 'InvalidJWT', message);
export const invalidSignature = () => new StorageError(400, 'InvalidSignature', 'Invalid signature');

export const storageFull = (quota: number) =>
  new StorageError(
    507,
    'InsufficientStorage',
    'The files of the project, or of all projects of its account, ' +
      `would exceed the quota of its plan (${quota} bytes for a project): delete objects, or use a larger plan`,
  );
export const diskFull = () =>
  new StorageError(
    507,
    'InsufficientStorage',
    'The disk of the installation is almost full: no upload is accepted for now',
  );
const databaseFull = () =>
  new StorageError(
    507,
    'InsufficientStorage',
    'The database is read-only, as it is while it is full: delete data, or use a larger plan',
  );

const databaseBusy = (message: string) => new StorageError(503, 'SlowDown', message, { retryAfterSeconds: 1 });

/** Prefix of the database's error for a result beyond the limit. */
export const ANSWER_TOO_LARGE = 'answer too large: ';

/** Converts a database's error to storage's. Other errors are left to the gateway. */
export function storageError(error: unknown): unknown {
  if (error instanceof PoolBusyError) return databaseBusy(error.message);
  if (isServerShort(error)) return databaseBusy(`The database server is short of resources: ${error.message}`);
  if (error instanceof AnswerTooLargeError) return new StorageError(500, 'DatabaseError', error.message);
  if (error instanceof ConnectionError) return new StorageError(502, 'DatabaseError', 'The database does not answer');
  if (!(error instanceof DatabaseError)) return error;
  if (error.code === '42501') return accessDenied();
  if (error.code === '25006') return databaseFull();
  if (error.code === '53100') return diskFull();
  if (error.code === '23505') return alreadyExists();
  if (error.code === '23503') return new StorageError(404, 'InvalidRequest', 'The related resource does not exist');
  if (error.code === '57014') {
    return new StorageError(544, 'DatabaseTimeout', 'The connection to the database timed out');
  }
  if (error.code === '22P02' && error.message.includes(ANSWER_TOO_LARGE)) {
    return invalidRequest(
      'The response would be larger than 8 MiB, or one object of it larger than 1.125 MiB: ' +
        'request fewer objects at a time',
    );
  }
  // A policy or trigger of the owner failed, so the message is useful to them.
  if (error.fields.where || error.code.startsWith('22') || error.code.startsWith('23') || error.code.startsWith('P0')) {
    return new StorageError(400, 'DatabaseError', error.message);
  }
  return new StorageError(500, 'DatabaseError', error.message);
}

/** Matches SQLSTATEs of conflicting transactions, and of a server that is out of resources or is stopping. */
const PASSING_CLASSES = /^(25|40|53|55|57|58|XX)/;

/** True if a retry may succeed: the operation was not rejected, but failed. */
export function isPassing(error: unknown): boolean {
  if (error instanceof DatabaseError && PASSING_CLASSES.test(error.code)) return true;
  const known = storageError(error);
  return !(known instanceof StorageError) || known.status >= 500;
}

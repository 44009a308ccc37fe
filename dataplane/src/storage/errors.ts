/** Storage's errors, in Supabase's words: a code, a status in the body, and a message. */
import { AnswerTooLargeError, ConnectionError, DatabaseError, PoolBusyError } from '../sql/errors.js';

export class StorageError extends Error {
  constructor(
    /** The status in the body; most are sent as HTTP 400, as old clients expect. */
    readonly status: number,
    readonly code: string,
    message: string,
    readonly error: string = code,
    readonly retryAfterSeconds?: number,
  ) {
    super(message);
  }

  get httpStatus(): number {
    return this.status >= 500 || this.status === 413 || this.status === 429 ? this.status : 400;
  }

  get body(): object {
    return { statusCode: String(this.status), error: this.error, message: this.message, code: this.code };
  }
}

export const noSuchBucket = () => new StorageError(404, 'NoSuchBucket', 'Bucket not found', 'Bucket not found');
export const noSuchKey = () => new StorageError(404, 'NoSuchKey', 'Object not found', 'not_found');
export const noSuchRoute = () => new StorageError(404, 'InvalidRequest', 'There is no such route', 'not_found');
export const invalidKey = (key: string) =>
  new StorageError(400, 'InvalidKey', `Invalid key: ${JSON.stringify(key.slice(0, 100)).slice(1, -1)}`);
export const invalidBucketName = () =>
  new StorageError(400, 'InvalidBucketName', 'Bucket name invalid', 'Invalid Input');
export const invalidRequest = (message: string) => new StorageError(400, 'InvalidRequest', message);
export const accessDenied = (message = 'new row violates row-level security policy') =>
  new StorageError(403, 'AccessDenied', message, 'Unauthorized');
const alreadyExists = () => new StorageError(409, 'ResourceAlreadyExists', 'The resource already exists', 'Duplicate');
export const bucketNotEmpty = () =>
  new StorageError(409, 'ResourceNotEmpty', 'The bucket you tried to delete is not empty');
export const tooLarge = () =>
  new StorageError(413, 'EntityTooLarge', 'The object exceeded the maximum allowed size', 'Payload too large');
export const invalidMimeType = (type: string) =>
  new StorageError(415, 'InvalidMimeType', `mime type ${type} is not supported`, 'invalid_mime_type');
export const tooManyUploads = (most: number) =>
  new StorageError(
    429,
    'TooManyRequests',
    `${most} uploads of this project are being received, as many as may be at once (uploadsAtOnce); try again in a moment`,
    'too_many_requests',
    5,
  );
export const tooManyOpenUploads = (most: number) =>
  new StorageError(
    429,
    'TooManyRequests',
    `${most} resumable uploads of this project are open, as many as may be (openUploads); end some by DELETE, or wait until they expire a day after they began`,
    'too_many_requests',
  );
/** A status that clients of resumable uploads wait for and then ask again. */
export const notYetFinished = () =>
  new StorageError(423, 'ResourceLocked', 'All of it has come and is not yet an object; try again in a moment');
export const tooManyOpenBytes = (most: number) =>
  new StorageError(
    429,
    'TooManyRequests',
    `the resumable uploads of this project that are open would have more than ${most} bytes, as many as they may (openUploadBytes); end some by DELETE, or wait until they expire a day after they began`,
    'too_many_requests',
  );
export const invalidToken = (message: string) => new StorageError(400, 'InvalidJWT', message);
export const invalidSignature = () => new StorageError(400, 'InvalidSignature', 'Invalid signature');

/** Prefix of the database's error for an answer that would be too large. */
export const ANSWER_TOO_LARGE = 'answer too large: ';

/** Translates a database's error into storage's words. Other errors go on to the gateway. */
export function storageError(error: unknown): unknown {
  if (error instanceof PoolBusyError) return new StorageError(503, 'SlowDown', error.message);
  if (error instanceof AnswerTooLargeError) return new StorageError(500, 'DatabaseError', error.message);
  if (error instanceof ConnectionError) return new StorageError(502, 'DatabaseError', 'The database does not answer');
  if (!(error instanceof DatabaseError)) return error;
  if (error.code === '42501') return accessDenied();
  if (error.code === '23505') return alreadyExists();
  if (error.code === '23503') return new StorageError(404, 'InvalidRequest', 'The related resource does not exist');
  if (error.code === '57014') {
    return new StorageError(544, 'DatabaseTimeout', 'The connection to the database timed out');
  }
  if (error.code === '22P02' && error.message.includes(ANSWER_TOO_LARGE)) {
    return invalidRequest('The answer would be larger than 32 MiB: ask for fewer objects at a time');
  }
  // A policy or trigger of the owner's failed: their own words help them.
  if (error.fields.where || error.code.startsWith('22') || error.code.startsWith('23') || error.code.startsWith('P0')) {
    return new StorageError(400, 'DatabaseError', error.message);
  }
  return new StorageError(500, 'DatabaseError', error.message);
}

/** Transactions that got into each other's way, and a server that lacks something or stops. */
const PASSING_CLASSES = /^(25|40|53|55|57|58|XX)/;

/** Whether the same may succeed later: nobody refused it, something did not work. */
export function isPassing(error: unknown): boolean {
  if (error instanceof DatabaseError && PASSING_CLASSES.test(error.code)) return true;
  const known = storageError(error);
  return !(known instanceof StorageError) || known.status >= 500;
}

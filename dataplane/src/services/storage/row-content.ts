/**
 * Content of a row in `storage.objects`. A project's owner can write any text into the column `version`. A value that
 * this service did not generate is a foreign id: reading it returns 404, and removing it removes no file.
 */
import { LogThrottle } from '@slipway/program';
import type { Logger } from 'pino';
import type { ServiceRequest } from '../service.js';
import { type ContentPlace, isVersion } from './content/content.js';
import { noSuchKey } from './errors.js';
import type { StorageContext } from './storage-context.js';

interface ContentRow {
  version?: unknown;
}

/** Logs requests with foreign ids: a few a second of each project, without the value, which may be anything. */
export class ForeignIdLog {
  readonly #lines: LogThrottle;

  constructor(private readonly log: Logger) {
    this.#lines = new LogThrottle((leftOut, ref) => log.warn({ ref, leftOut }, 'more foreign content ids ignored'));
  }

  write({ tenant: { ref }, requestId }: ServiceRequest, rows: number): void {
    if (this.#lines.take(ref)) this.log.warn({ ref, requestId, rows }, 'foreign content ids ignored');
  }

  close(): void {
    this.#lines.close();
  }
}

/** Throws noSuchKey() for a row without content that storage wrote. */
export function contentOf({ request, foreignIds }: StorageContext, { version }: ContentRow): ContentPlace {
  if (isVersion(version)) return { ref: request.tenant.ref, version };
  if (isForeign(version)) foreignIds.write(request, 1);
  throw noSuchKey();
}

/** Removes the content of rows that were deleted or replaced. */
export async function removeContentOf(
  { request, content, foreignIds, usage }: StorageContext,
  rows: readonly ContentRow[],
): Promise<void> {
  const versions = rows.map(({ version }) => version);
  const foreign = versions.filter(isForeign).length;
  if (foreign > 0) foreignIds.write(request, foreign);
  const bytes = await content.remove(request.tenant.ref, versions.filter(isVersion));
  usage.removed(request.tenant.ref, bytes);
}

/** A row that was inserted by SQL without a version has no content. That is not logged. */
const isForeign = (version: unknown) => version !== null && version !== undefined && !isVersion(version);

/**
 * The content that a row of `storage.objects` names. A project's owner can write any text into the column `version`, so
 * a value that this service did not generate is a foreign id: reading it answers 404, and removing it touches nothing.
 */
import type { Logger } from 'pino';
import { LogThrottle } from '../gateway/log-throttle.js';
import type { ServiceRequest } from '../service.js';
import { type ContentPlace, isVersion } from './content/content.js';
import { noSuchKey } from './errors.js';
import type { StorageContext } from './storage-context.js';

interface ContentRow {
  version?: unknown;
}

/** Logs requests that met foreign ids: a few a second of each project, without the value, which may be anything. */
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

/** Throws noSuchKey() for a row without content of ours. */
export function contentOf({ request, foreignIds }: StorageContext, { version }: ContentRow): ContentPlace {
  if (isVersion(version)) return { ref: request.tenant.ref, version };
  if (isForeign(version)) foreignIds.write(request, 1);
  throw noSuchKey();
}

/** Removes the content of rows that were deleted or replaced. */
export async function removeContentOf(
  { request, content, foreignIds }: StorageContext,
  rows: readonly ContentRow[],
): Promise<void> {
  const versions = rows.map(({ version }) => version);
  const foreign = versions.filter(isForeign).length;
  if (foreign > 0) foreignIds.write(request, foreign);
  await content.remove(request.tenant.ref, versions.filter(isVersion));
}

/** A row that was inserted by SQL without a version has no content; that is nothing to report. */
const isForeign = (version: unknown) => version !== null && version !== undefined && !isVersion(version);

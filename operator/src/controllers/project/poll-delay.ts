/**
 * Returns the delay until the next check of work that another program does: half of the time that has passed since
 * `since`, within the limits.
 */

export function pollDelay(
  since: string | undefined,
  now: Date,
  { least, most }: { least: number; most: number },
): number {
  const waitedMs = since === undefined ? 0 : now.getTime() - Date.parse(since);
  return Math.min(Math.max(waitedMs / 2, least), most);
}

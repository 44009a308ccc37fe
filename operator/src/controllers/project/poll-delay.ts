/** When to look again at what others are to do: in half of the time that it has been waited for already. */

export function pollDelay(
  since: string | undefined,
  now: Date,
  { least, most }: { least: number; most: number },
): number {
  const waitedMs = since === undefined ? 0 : now.getTime() - Date.parse(since);
  return Math.min(Math.max(waitedMs / 2, least), most);
}

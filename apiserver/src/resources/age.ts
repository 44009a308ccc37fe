/**
 * Formats a duration like kubectl and the real server (`k8s.io/apimachinery/pkg/util/duration`): `5s`, `3m12s`, `2d4h`.
 */
function humanDuration(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000);
  if (seconds < -1) return '<invalid>';
  if (seconds < 0) return '0s';
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return pair(minutes, 'm', seconds % 60, 's');
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return pair(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (hours < 192) return pair(days, 'd', hours % 24, 'h');
  if (days < 730) return `${days}d`;
  const years = Math.floor(days / 365);
  return days < 2920 ? pair(years, 'y', days % 365, 'd') : `${years}y`;
}

const pair = (large: number, unit: string, small: number, smallUnit: string) =>
  small === 0 ? `${large}${unit}` : `${large}${unit}${small}${smallUnit}`;

/** Returns the duration since `time`, an RFC 3339 timestamp. */
export function age(time: unknown, now: number): string {
  const at = typeof time === 'string' ? Date.parse(time) : Number.NaN;
  return Number.isNaN(at) ? '<unknown>' : humanDuration(now - at);
}

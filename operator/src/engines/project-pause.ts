/**
 * Reads from a response that the data plane has paused the project (docs/operations.md). In: the header Proxy-Status
 * (RFC 9209), to which proxies in between may have added entries. Out: the end of the pause and its operation, in
 * words.
 */
import { PROJECT_PAUSED } from '@slipway/installation';

const PAUSED = new RegExp(`(?:^|,)\\s*slipway\\s*;\\s*error=${PROJECT_PAUSED}\\s*;\\s*details="([^"\\\\]{1,200})"`);

export function projectPause(proxyStatus: string | string[] | undefined): string | undefined {
  const text = Array.isArray(proxyStatus) ? proxyStatus.join(', ') : proxyStatus;
  return text && PAUSED.exec(text)?.[1];
}

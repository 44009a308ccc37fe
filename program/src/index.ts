export { addressesOf, NOT_PUBLIC, refusedRanges, within } from './addresses.js';
export { type Backoff, delayOf } from './backoff.js';
export {
  type ConcurrencyBounds,
  ConcurrencyLimit,
  ConcurrencyLimitReached,
  type ReachedBound,
} from './concurrency-limit.js';
export { Counts, type Share } from './counts.js';
export { isDnsName } from './dns-name.js';
export { EndedConnections } from './ended-connections.js';
export { flush, namesIn, replaceFile, unlessMissing } from './files.js';
export { type Hang, readHangs, recordHang } from './hang-record.js';
export { LOOKUP_THREADS } from './host-lookups.js';
export { runInTurns, type Steps } from './in-turns.js';
export {
  type InternalAnswer,
  type InternalPlace,
  type InternalServerOptions,
  startInternalServer,
} from './internal-server.js';
export { countValues, type JsonBound, JsonRefusal, ONE_TURN, parseExactJson, parseJson } from './json.js';
export { jsonSteps, parseJsonInTurns } from './json-in-turns.js';
export { endRequests, listen, listenOptions } from './listening.js';
export { LOG_LEVELS, logLevelOf } from './log-level.js';
export { LogThrottle } from './log-throttle.js';
export { LONG_TURN_MESSAGE, LONG_TURN_MS } from './long-turns.js';
export { type MetricsRegistry, serveMetrics } from './metrics-server.js';
export { isLoopback, networkOf } from './networks.js';
export {
  ALLOWED_NETWORKS_SETTING,
  type Allows,
  connectionsOf,
  type Destination,
  hostOf,
  OWN_PORTS_SETTING,
  type Reach,
  readNetworks,
  readReach,
} from './reach.js';
export { readBounded } from './read-bounded.js';
export { dropRest } from './rest-of-request.js';
export { type Running, runProgram } from './run-program.js';
export { isSameSecret } from './same-secret.js';
export {
  type Environment,
  expectOneOf,
  fileSettingOf,
  LISTEN_FORM,
  METRICS_FORM,
  optionalSettingOf,
  type SettingForm,
  settingOf,
  tokenSettingOf,
} from './settings.js';
export { type WebhookMessage, webhookHeaders } from './standard-webhook.js';
export { type Rate, TokenBucket, TokenBuckets } from './token-bucket.js';
export { HANG_MS, HUNG_EXIT_CODE, startWatchdog, underWay } from './watchdog.js';

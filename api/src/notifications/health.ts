/**
 * Decides which changes of a project's health and quotas its owner is notified of. In: the record of the project, what
 * is observed now, and the time. Out: the new record, and the events. Pure.
 *
 * A failure counts after a minute, or if it is the second one within ten minutes. A recovery counts after a minute
 * without a failure. So a project that flaps does not flood its owner.
 */
import type { ProjectEvent } from '../outbox/events.js';

export const SETTLE_MS = 60_000;
const FLAPPING_MS = 10 * 60_000;
/** A quota that is used around a threshold is reported once in this time. */
const QUOTA_AGAIN_MS = 24 * 60 * 60_000;

/**
 * `unknown`: the project existed before notifications. `new`: it was never healthy. `suspected`: it fails, and its
 * owner does not know. `recovering`: it is healthy, and its owner believes that it fails.
 */
export type HealthState = 'unknown' | 'new' | 'healthy' | 'suspected' | 'failing' | 'recovering' | 'paused';

export const QUOTAS = ['database', 'storage', 'site'] as const;
export type Quota = (typeof QUOTAS)[number];
export type QuotaLevel = 'warning' | 'exceeded';

interface QuotaRecord {
  level?: QuotaLevel | undefined;
  /** The times in ISO 8601 at which the owner was notified. */
  sent?: Partial<Record<QuotaLevel, string>>;
}

export interface HealthRecord {
  state: HealthState;
  since: Date;
  announced: boolean;
  flappedAt: Date | null;
  lookAt: Date | null;
  quotas: Partial<Record<Quota, QuotaRecord>>;
}

export interface Observed {
  health: 'provisioning' | 'healthy' | 'failed' | 'paused';
  /** Only those that are nearly used up or more. */
  quotas: Partial<Record<Quota, QuotaLevel>>;
}

export interface Decision {
  record: HealthRecord;
  events: { type: ProjectEvent; since: Date; quota?: Quota }[];
}

export const firstRecord = (now: Date): HealthRecord => ({
  state: 'new',
  since: now,
  announced: false,
  flappedAt: null,
  lookAt: null,
  quotas: {},
});

export function decide(known: HealthRecord, observed: Observed, now: Date): Decision {
  const health = decideHealth(known, observed.health, now);
  const quotas = decideQuotas(known, observed.quotas, now);
  return { record: { ...health.record, quotas: quotas.quotas }, events: [...health.events, ...quotas.events] };
}

function decideHealth(known: HealthRecord, health: Observed['health'], now: Date): Decision {
  if (health === 'provisioning') return stay(known);
  if (health === 'paused') return known.state === 'paused' ? stay(known) : move(known, 'paused', now);
  return health === 'healthy' ? whenHealthy(known, now) : whenFailed(known, now);
}

function whenHealthy(known: HealthRecord, now: Date): Decision {
  switch (known.state) {
    case 'healthy':
      return stay(known);
    case 'failing':
      return move(known, 'recovering', now);
    case 'recovering':
      if (!isSettled(known, now)) return stay(known);
      return move(known, 'healthy', now, [{ type: 'project.recovered', since: known.since }]);
    case 'new':
      return announce(known, now);
    case 'suspected':
      return announce({ ...known, flappedAt: known.since }, now);
    default:
      return move({ ...known, announced: true }, 'healthy', now);
  }
}

/** A project that was healthy before is not announced again. */
function announce(known: HealthRecord, now: Date): Decision {
  const events = known.announced ? [] : [{ type: 'project.healthy' as const, since: now }];
  return move({ ...known, announced: true }, 'healthy', now, events);
}

function whenFailed(known: HealthRecord, now: Date): Decision {
  const fail = () => move({ ...known, flappedAt: null }, 'failing', now, [{ type: 'project.failing', since: now }]);
  switch (known.state) {
    case 'failing':
      return stay(known);
    case 'recovering':
    case 'unknown':
      return move(known, 'failing', now);
    case 'suspected':
      return isSettled(known, now) ? fail() : stay(known);
    default:
      return isFlapping(known, now) ? fail() : move(known, 'suspected', now);
  }
}

/** A time in the future was recorded while the clock was wrong. */
const isSettled = ({ since }: HealthRecord, now: Date) =>
  now.getTime() - since.getTime() >= SETTLE_MS || since.getTime() > now.getTime() + FLAPPING_MS;
const isFlapping = ({ flappedAt }: HealthRecord, now: Date) =>
  flappedAt !== null && now.getTime() - flappedAt.getTime() <= FLAPPING_MS;

const stay = (record: HealthRecord): Decision => ({ record, events: [] });

function move(known: HealthRecord, state: HealthState, now: Date, events: Decision['events'] = []): Decision {
  const isOpen = state === 'suspected' || state === 'recovering';
  const lookAt = isOpen ? new Date(now.getTime() + SETTLE_MS) : null;
  return { record: { ...known, state, since: now, lookAt }, events };
}

/** A quota that rises to a level is reported. A fall is not, and exceeding a quota again within a day is not either. */
function decideQuotas(known: HealthRecord, observed: Observed['quotas'], now: Date) {
  const quotas: HealthRecord['quotas'] = {};
  const events: Decision['events'] = [];
  for (const quota of QUOTAS) {
    const before = known.quotas[quota] ?? {};
    const level = observed[quota];
    if (level === undefined && before.sent === undefined) continue;
    const sent = { ...before.sent };
    if (level !== undefined && isRise(before.level, level) && isDue(sent[level], now)) {
      sent[level] = now.toISOString();
      if (known.state !== 'unknown') events.push({ type: `quota.${level}`, since: now, quota });
    }
    quotas[quota] = { level, sent };
  }
  return { quotas, events };
}

const isRise = (before: QuotaLevel | undefined, level: QuotaLevel) =>
  before === undefined || (before === 'warning' && level === 'exceeded');
const isDue = (sent: string | undefined, now: Date) =>
  sent === undefined || now.getTime() - Date.parse(sent) >= QUOTA_AGAIN_MS;

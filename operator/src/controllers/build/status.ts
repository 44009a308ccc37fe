/** Converts the result of a reconcile to the Build's status. Pure. */
import {
  type Build,
  type BuildPhase,
  type BuildStatus,
  COMMIT_MAX_LENGTH,
  type Condition,
  DETECTED_MAX_LENGTHS,
  MESSAGE_MAX_LENGTH,
} from '@slipway/crds';
import type { BuildState } from '../../capabilities/index.js';
import { timestamp, withCondition } from '../../runtime/conditions.js';

export type Finding =
  /** `isUncounted`: the attempt that was interrupted does not count. */
  | { phase: 'Queued'; reason: string; message: string; isUncounted?: true }
  | { phase: 'Cancelled' | 'Failed' | 'Removed'; reason: string; message: string; at?: Date }
  | { phase: 'Deployed'; message: string; at?: Date; bytes?: number | undefined }
  /** The build has its place. The engine starts it next. */
  | { phase: 'Cloning'; ticketDigest: string };

export function statusOf(build: Build, finding: Finding, now: Date): BuildStatus {
  const { status: before = {} } = build;
  switch (finding.phase) {
    case 'Queued': {
      const { message, isUncounted } = finding;
      const uncounted = isUncounted ? { attempts: Math.max(0, (before.attempts ?? 0) - 1) } : {};
      return { ...kept(before), ...uncounted, phase: 'Queued', message: cut(message), ...ready(build, finding, now) };
    }
    case 'Cloning': {
      const { ticketDigest } = finding;
      const attempts = (before.attempts ?? 0) + 1;
      const startedAt = timestamp(now);
      const steps = [{ name: 'Cloning' as const, startedAt }];
      const report = { phase: 'Cloning' as const, reason: 'Cloning', message: MESSAGES.Cloning };
      const begun = { phase: report.phase, message: report.message, attempts, startedAt, steps, ticketDigest };
      return { ...kept(before), ...begun, ...ready(build, report, now) };
    }
    default: {
      const { phase, message, at = now } = finding;
      const ended = { phase, message: cut(message), finishedAt: timestamp(at), ...bytesOf(finding) };
      return { ...kept(before), ...pastOf(before), ...ended, ...ready(build, finding, now) };
    }
  }
}

const bytesOf = (finding: Finding): Pick<BuildStatus, 'bytes'> =>
  finding.phase === 'Deployed' && finding.bytes !== undefined ? { bytes: finding.bytes } : {};

/** Returns the status of a running or just ended build from the engine's state. */
export function progressOf(
  build: Build,
  { steps, commit, detected, hasCredentials }: BuildState,
  now: Date,
): BuildStatus {
  const { status: before = {} } = build;
  const last = steps.at(-1)?.name ?? 'Cloning';
  const report = { phase: last, reason: last, message: MESSAGES[last] };
  return {
    ...kept(before),
    phase: last,
    message: report.message,
    startedAt: before.startedAt ?? timestamp(now),
    steps: steps.map(({ name, startedAt, finishedAt, exitCode }) => ({
      name,
      startedAt: timestamp(startedAt),
      ...(finishedAt ? { finishedAt: timestamp(finishedAt) } : {}),
      ...(exitCode === undefined ? {} : { exitCode }),
    })),
    ...(commit === undefined ? {} : { commit: cut(commit, COMMIT_MAX_LENGTH) }),
    ...(detected === undefined ? {} : { detected: shortened(detected) }),
    ...(hasCredentials || before.ticketDigest === undefined ? {} : { ticketDigest: before.ticketDigest }),
    ...ready(build, report, now),
  };
}

type Detected = NonNullable<BuildStatus['detected']>;

/**
 * Shortens values from a repository to the lengths of the schema: a longer value would make every write of the status
 * fail.
 */
function shortened(detected: Detected): Detected {
  const kept: Detected = {};
  for (const [name, most] of Object.entries(DETECTED_MAX_LENGTHS) as [keyof Detected, number][]) {
    const value = detected[name];
    if (value !== undefined) kept[name] = cut(String(value), most);
  }
  return kept;
}

const MESSAGES = {
  Cloning: 'cloning the repository',
  Installing: 'installing what the build needs',
  Building: 'building the site',
} as const;

/** Returns the members of a running build's status that stay after its end. */
function pastOf(before: BuildStatus): BuildStatus {
  const past: BuildStatus = {};
  if (before.steps) past.steps = before.steps;
  if (before.detected) past.detected = before.detected;
  if (before.commit !== undefined) past.commit = before.commit;
  if (before.startedAt !== undefined) past.startedAt = before.startedAt;
  return past;
}

const kept = ({ attempts, number }: BuildStatus): Pick<BuildStatus, 'attempts' | 'number'> => ({
  ...(attempts === undefined ? {} : { attempts }),
  ...(number === undefined ? {} : { number }),
});

interface Report {
  phase: BuildPhase;
  reason?: string;
  message: string;
}

function ready({ metadata, status }: Build, { phase, reason = phase, message }: Report, now: Date) {
  const isReady = phase === 'Deployed' ? ('True' as const) : ('False' as const);
  const condition = { type: 'Ready', status: isReady, reason, message: cut(message) };
  const generation = metadata.generation ?? 0;
  const conditions: Condition[] = withCondition(status?.conditions ?? [], condition, generation, now);
  return { observedGeneration: generation, conditions };
}

/** Returns the start of a text. Half of a surrogate pair at the end is replaced, as JSON can't represent it. */
const cut = (text: string, most: number = MESSAGE_MAX_LENGTH) => text.slice(0, most).toWellFormed();

/**
 * Every limit that depends on a project's plan. The program that enforces a limit defines what happens beyond it;
 * docs/limits.md shows the values. Sizes of pods by plan are in the site's settings.
 */
import { MOST_PREVIEWS, type Plan } from '@slipway/crds';

type ByPlan<T> = Readonly<Record<Plan, T>>;

const KIB = 1024;
const MB = 1e6;
const GB = 1e9;

/** Maximum bytes of a project's database. Plan free has the same as Supabase's. Enforced by the operator. */
export const DATABASE_BYTES: ByPlan<number> = {
  free: 500 * MB,
  starter: 2_000 * MB,
  pro: 8_000 * MB,
  team: 32_000 * MB,
  enterprise: 128_000 * MB,
};

/** Maximum bytes of write-ahead log that the projects of an account may write in a minute. Enforced by the operator. */
export const WAL_BYTES_A_MINUTE: ByPlan<number> = {
  free: 3 * GB,
  starter: 4 * GB,
  pro: 6 * GB,
  team: 8 * GB,
  enterprise: 12 * GB,
};

/** Maximum bytes of a project's files in storage. Plan free has the same as Supabase's. Enforced by the data plane. */
export const STORAGE_BYTES: ByPlan<number> = {
  free: GB,
  starter: 10 * GB,
  pro: 100 * GB,
  team: 400 * GB,
  enterprise: 1_600 * GB,
};

const MINUTE = 60_000;
const GIB = 1024 ** 3;

/**
 * Maximum bytes of a site's deployments, build caches and build logs. Enforced by the operator, which makes room before
 * a build starts.
 */
export const SITE_BYTES: ByPlan<number> = {
  free: 8 * GIB,
  starter: 16 * GIB,
  pro: 32 * GIB,
  team: 128 * GIB,
  enterprise: 512 * GIB,
};

export interface BuildLimits {
  milliseconds: number;
  /** Bytes of all processes of a build together. */
  memoryBytes: number;
  processes: number;
  /** Bytes of the build's files, in memory or on disk. */
  diskBytes: number;
  /** Bytes of the build's log. Output beyond them is dropped. */
  logBytes: number;
}

const BUILD: BuildLimits = {
  milliseconds: 20 * MINUTE,
  memoryBytes: 4 * GIB,
  processes: 4096,
  diskBytes: 10 * GIB,
  logBytes: 10 * KIB * KIB,
};

/** Limits of one build. A machine gives builds at most half of its memory. Enforced by the operator's engine. */
export const BUILD_LIMITS: ByPlan<BuildLimits> = {
  free: BUILD,
  starter: BUILD,
  pro: { ...BUILD, milliseconds: 30 * MINUTE, memoryBytes: 8 * GIB },
  team: { ...BUILD, milliseconds: 45 * MINUTE, memoryBytes: 8 * GIB },
  enterprise: { ...BUILD, milliseconds: 60 * MINUTE, memoryBytes: 16 * GIB },
};

export interface AppLimits {
  memoryBytes: number;
  /** Share of the machine's processors: 0.5 is half of one. */
  processors: number;
  processes: number;
  /** Bytes of images, of layers that builds keep, and of the files of containers together. */
  diskBytes: number;
  /** Bytes of the container's output that are kept. */
  logBytes: number;
}

const APP: AppLimits = {
  memoryBytes: 512 * KIB * KIB,
  processors: 0.5,
  processes: 512,
  diskBytes: 8 * GIB,
  logBytes: 10 * KIB * KIB,
};

/** Limits of an app's container, the first of which the specification sets. Enforced by the operator's engine. */
export const APP_LIMITS: ByPlan<AppLimits> = {
  free: APP,
  starter: APP,
  pro: { ...APP, memoryBytes: GIB, processors: 1, processes: 1024, diskBytes: 16 * GIB },
  team: { ...APP, memoryBytes: 2 * GIB, processors: 2, processes: 2048, diskBytes: 32 * GIB },
  enterprise: { ...APP, memoryBytes: 4 * GIB, processors: 4, processes: 4096, diskBytes: 64 * GIB },
};

export interface AccountBuildLimits {
  /** Builds that run at the same time. */
  atOnce: number;
  /** Time of all builds in a day. A build that has begun runs to its end. */
  millisecondsADay: number;
}

/**
 * Limits of all builds of an account together, by the plan of the project whose build waits. Enforced by the operator.
 */
export const ACCOUNT_BUILD_LIMITS: ByPlan<AccountBuildLimits> = {
  free: { atOnce: 2, millisecondsADay: 240 * MINUTE },
  starter: { atOnce: 2, millisecondsADay: 480 * MINUTE },
  pro: { atOnce: 4, millisecondsADay: 1_440 * MINUTE },
  team: { atOnce: 8, millisecondsADay: 5_760 * MINUTE },
  enterprise: { atOnce: 16, millisecondsADay: 14_400 * MINUTE },
};

/** Number of files, bytes of one file, and bytes of all files. */
export interface DeploymentLimits {
  files: number;
  fileBytes: number;
  totalBytes: number;
}

const MIB = KIB * KIB;
const SMALL_SITE: DeploymentLimits = { files: 20_000, fileBytes: 25 * MIB, totalBytes: GIB };
const LARGE_SITE: DeploymentLimits = { files: 50_000, fileBytes: 100 * MIB, totalBytes: 4 * GIB };

/** Limits of one deployment of a site. Enforced when a build is published. */
export const DEPLOYMENT_LIMITS: ByPlan<DeploymentLimits> = {
  free: SMALL_SITE,
  starter: SMALL_SITE,
  pro: SMALL_SITE,
  team: LARGE_SITE,
  enterprise: LARGE_SITE,
};

/** Number of previews, and bytes of all their files. */
export interface PreviewLimits {
  previews: number;
  totalBytes: number;
}

/**
 * Limits of a project's previews. The project's status lists all of them. Enforced by the operator, which removes the
 * oldest.
 */
export const PREVIEW_LIMITS: ByPlan<PreviewLimits> = {
  free: { previews: 5, totalBytes: GIB },
  starter: { previews: 10, totalBytes: 2 * GIB },
  pro: { previews: 20, totalBytes: 4 * GIB },
  team: { previews: MOST_PREVIEWS, totalBytes: 16 * GIB },
  enterprise: { previews: MOST_PREVIEWS, totalBytes: 16 * GIB },
};

export interface RealtimeLimits {
  /** Simultaneous sockets. */
  connections: number;
  channelsPerConnection: number;
  joinsPerSecond: number;
  /** Broadcasts, from clients, REST and the database together. */
  eventsPerSecond: number;
  presenceEventsPerSecond: number;
  /** Bytes of the payload of a broadcast or a presence. */
  payloadBytes: number;
  /**
   * Bytes that the project's channels keep: join parameters and tracked presences. As many bytes again are allowed for
   * messages that wait for slow clients of all channels.
   */
  heldBytes: number;
  /** Bytes of the presences of one topic, which each client that joins receives in one message. */
  presenceBytes: number;
  /** Bytes of a change. A larger record is sent with its small values alone. */
  recordBytes: number;
}

const SMALL: RealtimeLimits = {
  connections: 200,
  channelsPerConnection: 100,
  joinsPerSecond: 100,
  eventsPerSecond: 100,
  presenceEventsPerSecond: 20,
  payloadBytes: 256 * KIB,
  heldBytes: 32 * KIB * KIB,
  presenceBytes: KIB * KIB,
  recordBytes: 1024 * KIB,
};
const MIDDLE: RealtimeLimits = {
  ...SMALL,
  connections: 500,
  joinsPerSecond: 500,
  eventsPerSecond: 500,
  presenceEventsPerSecond: 50,
  payloadBytes: 3000 * KIB,
  heldBytes: 128 * KIB * KIB,
  presenceBytes: 4 * KIB * KIB,
};
const LARGE: RealtimeLimits = {
  ...MIDDLE,
  connections: 10_000,
  joinsPerSecond: 2500,
  eventsPerSecond: 2500,
  presenceEventsPerSecond: 1000,
  heldBytes: 512 * KIB * KIB,
};

/**
 * Limits of realtime, which are upstream's quotas. Enforced by the data plane, which reports an exceeded limit in
 * upstream's words.
 */
export const REALTIME_LIMITS: ByPlan<RealtimeLimits> = {
  free: SMALL,
  starter: SMALL,
  pro: MIDDLE,
  team: LARGE,
  enterprise: LARGE,
};

/**
 * Decides which logins of a project's database stay open when the database exceeds its quota. In: its size, its limits,
 * and the decisions of earlier looks. Out: which logins are closed (the level), and until when. Pure. Used by
 * DatabaseSizes.
 *
 * The owner's login stays open, so that rows can be deleted. If the database still grows, that login is closed for a
 * while (shut).
 */
import { delayOf } from '@slipway/program';

const MB = 1e6;
/** Quota of all databases of an account on one server, as a multiple of the quota of its largest plan. */
export const DATABASES_OF_ACCOUNT = 4;
/** Share of the quota below which the database is writable again. */
const ENOUGH_ROOM = 0.95;
/**
 * Maximum growth in bytes of a full database. Deleting rows may cause it, by the free space map and the visibility map.
 */
const GROWTH = 16 * MB;
/** Maximum growth in bytes while the owner's login is closed. */
const GROWTH_WHILE_SHUT = 4 * MB;
/** Durations for which the owner's login is closed. Each one in a row is longer. */
const SHUTS = { firstMs: 60_000, maxMs: 3_600_000, jitter: 0 };

/**
 * 0: every login is open. 1: the owner's login is shut. 2: the login of `/query` is shut too. 3: the logins of the data
 * plane are shut too.
 */
export type ShutLevel = 0 | 1 | 2 | 3;

/** The state of a database that exceeds its quota. */
export interface Fullness {
  /** The size from which growth counts, in bytes. */
  base: number;
  level: ShutLevel;
  /** Number of shuts since the database exceeded its quota. */
  shuts: number;
  /** End of the present shut, in milliseconds since the epoch; 0: not shut. */
  shutUntil: number;
}

export interface Look {
  size: number;
  quota: number;
  /** Use as a share of the nearest limit: the plan's or the account's. Above 1 the limit is exceeded. */
  share: number;
  /** True while a VACUUM FULL or CLUSTER runs. It needs room before it frees some. */
  isRewriting: boolean;
  now: number;
}

/** Returns the state of the database from now on. Undefined: writable. */
export function fullnessAfter(before: Fullness | undefined, look: Look): Fullness | undefined {
  const { size, share, now } = look;
  if (!before) return share > 1 ? { base: size, level: 0, shuts: 0, shutUntil: 0 } : undefined;
  if (share <= ENOUGH_ROOM) return undefined;
  if (before.level > 0 && now >= before.shutUntil) return { ...before, base: size, level: 0, shutUntil: 0 };
  if (!isGrowing(before, look)) return { ...before, base: Math.min(before.base, size) };
  if (before.level > 0) return { ...before, base: size, level: Math.min(before.level + 1, 3) as ShutLevel };
  const shuts = before.shuts + 1;
  return { base: size, level: 1, shuts, shutUntil: now + delayOf(SHUTS, shuts) };
}

/** True for a rewrite that may continue: it may use twice the quota. Other sessions can't write until it ends. */
export const mayRewrite = ({ isRewriting, size, quota }: Look) => isRewriting && size <= 2 * quota + GROWTH;

function isGrowing({ base, level }: Fullness, look: Look): boolean {
  if (level > 0 && mayRewrite(look)) return false;
  return look.size > base + (level > 0 ? GROWTH_WHILE_SHUT : GROWTH);
}

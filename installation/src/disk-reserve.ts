/** The part of a disk that stays free of tenants' data, so that the platform and its own Postgres keep running. */
const LARGEST_RESERVE = 2 ** 30;
const SHARE = 0.05;

/** Returns the bytes that stay free on a disk of `total` bytes: a twentieth, at most 1 GiB. */
export const diskReserveOf = (total: number) => Math.min(total * SHARE, LARGEST_RESERVE);

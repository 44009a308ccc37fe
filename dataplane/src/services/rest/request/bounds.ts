/** Limits of the names in a body of any type: JSON, a form or a CSV. */

/** Maximum number of distinct names: more than the columns of any table (1,600) or the parameters of any function. */
export const MOST_NAMES = 2_000;
/** Maximum bytes of a name: more than Postgres' 63 bytes in UTF-8, escaped as in a form or a CSV. */
export const NAME_BYTES = 256;
/** Cost of decoding and looking up a name, in addition to its bytes, in bytes of a step. */
export const NAME_COST = 64;

/** Parses the arguments of `npm test`, `npm run test:long` and `npm run test:cluster`. Used by scripts/test.mjs. */
import { SETS } from './sets.mjs';

/** The options that are no set, with the names of what they mean. */
const FLAGS = {
  '--changed': 'isChanged',
  '--resume': 'isResumed',
  '--only-failed': 'isOnlyFailed',
  '--any-cluster': 'any',
};

/** Returns the set, the flags, and the parts of paths. Throws for an unknown option. */
export function optionsOf(words) {
  const options = words.filter((word) => word.startsWith('--'));
  const sets = Object.keys(SETS).filter((name) => options.includes(`--${name}`));
  const known = [...Object.keys(FLAGS), ...Object.keys(SETS).map((name) => `--${name}`)];
  const unknown = options.filter((option) => !known.includes(option));
  if (unknown.length > 0)
    throw new Error(`unknown: ${unknown.join(', ')}. The options are ${Object.keys(FLAGS).join(', ')}`);
  const flags = Object.entries(FLAGS).map(([option, name]) => [name, options.includes(option)]);
  return {
    set: sets[0] ?? 'quick',
    ...Object.fromEntries(flags),
    parts: words.filter((word) => !word.startsWith('--')),
  };
}

/**
 * Returns the files that are left for a resumed run, and for one of the files that failed. `records` has their last
 * results.
 */
export function filesLeft(files, { isResumed, isOnlyFailed }, records) {
  const left = files.filter((file) => !isResumed || !records.hasPassed(file));
  return left.filter((file) => !isOnlyFailed || records.hasFailed(file));
}

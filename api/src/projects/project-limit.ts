import { ConcurrencyLimit } from '@slipway/program';
import { retryLater } from '../http/problem.js';

/** Limits how many operations of one kind run at once, for each project and in all. */
export const projectLimit = (what: string, ofOne: number, most: number): ConcurrencyLimit =>
  new ConcurrencyLimit({ most, ofOne }, (reached) =>
    reached === 'key'
      ? retryLater('too_many_requests', `A project has at most ${ofOne} ${what} at once.`, 1)
      : retryLater('unavailable', `Too many ${what} are running. Try again.`, 1),
  );

/**
 * Numbers in a spec that request something of the operator once, such as a restart. A changed number is a new request.
 * The operator reports the number of the last request that it completed.
 */

/** The largest number of a request. */
export const MOST_REQUESTS = 2_147_483_647;

/** Returns the number of the next request. The largest number is followed by 1. */
export const nextRequest = (number = 0): number => (number >= MOST_REQUESTS ? 1 : number + 1);

/** True if `done` is the number of this request or of a later one. */
export const isRequestDone = (done: number, request: number): boolean => {
  const passed = (done - request + MOST_REQUESTS) % MOST_REQUESTS;
  return passed < MOST_REQUESTS / 2;
};

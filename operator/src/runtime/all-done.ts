/**
 * Like `Promise.all`, but rejects only after every promise has settled. Otherwise work could outlive its reconcile, and
 * the next reconcile could touch the same objects.
 */
export async function allDone<T extends readonly unknown[]>(
  work: {
    readonly [Key in keyof T]: Promise<T[Key]>;
  },
): Promise<T> {
  const results = await Promise.allSettled(work);
  const failure = results.find((result) => result.status === 'rejected');
  if (failure) throw failure.reason;
  return results.map((result) => (result as PromiseFulfilledResult<unknown>).value) as unknown as T;
}

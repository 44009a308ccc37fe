/** Repeats a check for a moment, because the data plane applies the operator's writes within milliseconds. */

/** Maximum milliseconds of the repetition, so that a data plane that hangs does not occupy a worker for longer. */
const PATIENCE_MS = 1_500;
const PAUSES_MS = [3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 400];

/** Resolves with the first final result, or with the last one when the time is over. */
export async function lookQuickly(look: () => Promise<string>, isFinal: (result: string) => boolean): Promise<string> {
  const end = performance.now() + PATIENCE_MS;
  let result = await look();
  for (const pause of PAUSES_MS) {
    if (isFinal(result) || performance.now() > end) break;
    await new Promise((resolve) => setTimeout(resolve, pause));
    result = await look();
  }
  return result;
}

/**
 * Counterpart of `Generator` in the generator's process: receives the job, then any number of runs, and responds to
 * each with its sample.
 */
import type { LoadRun, Sample } from './load.js';

export function answerRuns<Job extends object>(
  begin: (job: Job) => void,
  run: (run: LoadRun) => Promise<Sample>,
): void {
  process.on('message', (message: Job | LoadRun) => {
    if (!('seconds' in message)) return begin(message);
    run(message).then(
      (sample) => process.send?.(sample),
      (error) => {
        console.error(error);
        process.exit(1);
      },
    );
  });
  process.on('disconnect', () => process.exit());
}

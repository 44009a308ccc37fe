/** Ends a check for missed pushes when the branch has no newer commit. */
import type { BuildSession } from './build-session.js';
import { type Clone, newestCommit } from './clone.js';
import { Unneeded } from './request.js';

/** Throws Unneeded if the newest commit is the one that the request names. */
export async function refuseUnneeded(session: BuildSession): Promise<void> {
  const { request, folders, account } = session;
  const { unless } = request.source;
  if (unless === undefined) return;
  const run: Clone['run'] = (command, onOutput) =>
    session.run(command, (bytes) => {
      onOutput?.(bytes);
      session.log.output(bytes);
    });
  if ((await newestCommit({ request, folders, account, run })) !== unless) return;
  throw new Unneeded('the newest commit was built before');
}

/**
 * Runs the API's commands for accounts (`npm run admin`) on the platform database of the platform that runs over
 * SLIPWAY_HOME. Only accounts of the machine that can read the home's secrets may run them. Called by `main.ts`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { openHome } from './home.js';
import { lockHolder } from './lock.js';
import { StartProblem } from './problem.js';
import { apiDatabaseUrl } from './programs.js';
import { openSecrets } from './secrets.js';
import type { Settings } from './settings.js';

/** Resolves with the exit code of the command, which writes to this process's terminal. */
export async function admin(settings: Settings, words: readonly string[]): Promise<number> {
  if (!(await lockHolder(settings.home))) {
    throw new StartProblem(`nothing runs over ${settings.home}: start the platform with \`npm start\` first`);
  }
  const home = await openHome(settings.home);
  const secrets = await openSecrets(home);
  const main = fileURLToPath(new URL('./admin.js', import.meta.resolve('@slipway/api')));
  const child = spawn(process.execPath, [main, ...words], {
    stdio: 'inherit',
    env: { SLIPWAY_DATABASE_URL: apiDatabaseUrl({ settings, home, secrets }) },
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  return code ?? 1;
}

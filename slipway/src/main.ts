/** The program behind `npm start` and `npm stop`. */
import { admin } from './admin.js';
import { lockHolder } from './lock.js';
import { inOneLine, StartProblem } from './problem.js';
import { terminalProgress } from './progress.js';
import { homeOf, readSettings, SETTINGS_HELP } from './settings.js';
import { Supervisor } from './supervisor.js';
import { welcome } from './welcome.js';

const HELP = `
npm start           starts the platform and keeps it up until Ctrl-C
npm stop            ends the one that runs over SLIPWAY_HOME
npm run admin -- appoint <address>
                    makes an account of the one that runs an administrator
npm run admin -- accounts
                    lists its accounts
npm run admin       lists all commands for accounts

Settings, by environment variable:
${SETTINGS_HELP}`;

/** A terminal, npm and a shell may each pass on the same Ctrl-C: signals this close together are one. */
const ONE_PRESS_MS = 500;

async function start(): Promise<void> {
  const begin = performance.now();
  const settings = readSettings(process.env, process.cwd());
  const progress = terminalProgress(process.stdout);
  const supervisor = new Supervisor(settings, progress);
  const stopping = endOnSignals(supervisor, progress.say);
  try {
    const started = await supervisor.start();
    progress.say(welcome(settings, started, ((performance.now() - begin) / 1000).toFixed(1)));
  } catch (error) {
    if (stopping()) return;
    await supervisor.stop();
    throw error;
  }
}

/** Returns whether a signal came. */
function endOnSignals(supervisor: Supervisor, say: (text: string) => void): () => boolean {
  let firstAt: number | undefined;
  const end = async () => {
    if (firstAt !== undefined) {
      if (performance.now() - firstAt < ONE_PRESS_MS) return;
      supervisor.kill();
      process.exit(130);
    }
    firstAt = performance.now();
    say('\nEnding: what runs is finished, Postgres writes everything down. Ctrl-C again ends it at once.');
    await supervisor.stop();
    say('Ended; all data stays.');
    process.exit(0);
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end().catch(fail));
  // A program that started this one with a channel, such as a test, is gone.
  process.on('disconnect', () => void end().catch(fail));
  return () => firstAt !== undefined;
}

async function stop(): Promise<void> {
  const home = homeOf(process.env, process.cwd());
  const holder = await lockHolder(home);
  if (!holder) throw new StartProblem(`nothing runs over ${home}`);
  process.kill(holder, 'SIGTERM');
  while ((await lockHolder(home)) !== undefined) await new Promise((resolve) => setTimeout(resolve, 100));
  process.stdout.write('Ended; all data stays.\n');
}

const administer = () => admin(readSettings(process.env, process.cwd()), process.argv.slice(3));

function fail(error: unknown): never {
  process.stderr.write(`slipway: ${inOneLine(error)}\n`);
  process.exit(1);
}

// A terminal that is gone is no reason to end.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

const [command = 'start', ...words] = process.argv.slice(2);
// Before anything else: help for a command must not run the command.
if (command === 'help' || [command, ...words].some((word) => word === '--help' || word === '-h')) {
  process.stdout.write(HELP);
} else if (command !== 'admin' && words.length > 0) {
  fail(new StartProblem(`${command} takes no "${words[0]}": npm start -- --help lists the commands`));
} else if (command === 'stop') await stop().catch(fail);
else if (command === 'start') await start().catch(fail);
else if (command === 'admin') process.exitCode = await administer().catch(fail);
else fail(new StartProblem(`there is no "${command}": npm start -- --help lists the commands`));

/** The program of `npm start`, `npm stop`, `npm run admin` and `npm run uninstall`. */
import { SHARED_HOME } from '@slipway/postgres';
import { admin } from './admin.js';
import { lockHolder } from './lock.js';
import { inOneLine, StartProblem } from './problem.js';
import { terminalProgress } from './progress.js';
import { homeOf, readSettings, SETTINGS_HELP, unknownSettings } from './settings.js';
import { Supervisor } from './supervisor.js';
import { uninstall } from './uninstall.js';
import { welcome } from './welcome.js';

const HELP = `
npm start           starts the platform, which runs until Ctrl-C
npm stop            stops the platform that runs over SLIPWAY_HOME
npm run admin -- appoint <address>
                    makes an account of that platform an administrator
npm run admin -- accounts
                    lists the accounts
npm run admin       lists all commands for accounts
npm run uninstall   removes all of SLIPWAY_HOME, after a confirmation
  -- --yes          removes it without a confirmation
  -- --orphans      removes only data and apps whose home was deleted
  -- --orphans --unknown
                    removes also data of unknown homes

Settings, by environment variable:
${SETTINGS_HELP}`;

/**
 * Milliseconds within which several signals count as one, because a terminal, npm and a shell may each forward the same
 * Ctrl-C.
 */
const ONE_PRESS_MS = 500;

async function start(): Promise<void> {
  const settings = readSettings(process.env, process.cwd());
  const progress = terminalProgress(process.stdout);
  for (const name of unknownSettings(process.env)) {
    progress.say(`! ${name} is not a setting and has no effect: npm start -- --help lists the settings`);
  }
  const supervisor = new Supervisor(settings, progress);
  const stopping = endOnSignals(supervisor, progress.say);
  try {
    const started = await supervisor.start();
    progress.say(welcome(settings, started, secondsSinceCommand()));
  } catch (error) {
    if (stopping()) return;
    await supervisor.stop();
    throw error;
  }
}

/** Returns the seconds since `npm start` began. Its script passes on the time of installing and compiling. */
function secondsSinceCommand(): string {
  const preparedMs = Number(process.env.SLIPWAY_PREPARED_MS) || 0;
  return ((preparedMs + performance.now()) / 1000).toFixed(1);
}

/** Returns a function that is true once a signal came. */
function endOnSignals(supervisor: Supervisor, say: (text: string) => void): () => boolean {
  let firstAt: number | undefined;
  const end = async () => {
    if (firstAt !== undefined) {
      if (performance.now() - firstAt < ONE_PRESS_MS) return;
      supervisor.kill();
      process.exit(130);
    }
    firstAt = performance.now();
    say('\nStopping: requests finish, and Postgres writes a checkpoint. Press Ctrl-C again to stop at once.');
    await supervisor.stop();
    say('Stopped; all data stays.');
    process.exit(0);
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end().catch(fail));
  // The program that started this one with an IPC channel, such as a test, has ended.
  process.on('disconnect', () => void end().catch(fail));
  return () => firstAt !== undefined;
}

async function stop(): Promise<void> {
  const home = homeOf(process.env, process.cwd());
  const holder = await lockHolder(home);
  if (!holder) throw new StartProblem(`nothing runs over ${home}`);
  process.kill(holder, 'SIGTERM');
  while ((await lockHolder(home)) !== undefined) await new Promise((resolve) => setTimeout(resolve, 100));
  process.stdout.write('Stopped; all data stays.\n');
}

const administer = () => admin(readSettings(process.env, process.cwd()), process.argv.slice(3));

function fail(error: unknown): never {
  process.stderr.write(`slipway: ${inOneLine(error, homeOf(process.env, process.cwd()))}\n`);
  process.exit(1);
}

// A closed terminal is no reason to stop.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

const [command = 'start', ...words] = process.argv.slice(2);
// Checked first, because help for a command must not run the command.
if (command === 'help' || [command, ...words].some((word) => word === '--help' || word === '-h')) {
  process.stdout.write(HELP);
} else if (command.startsWith('-')) {
  const fix = 'settings are environment variables, such as SLIPWAY_PORT=4010 npm start. npm start -- --help lists them';
  fail(new StartProblem(`there is no option ${command}: ${fix}`));
} else if (!['admin', 'uninstall'].includes(command) && words.length > 0) {
  fail(new StartProblem(`${command} takes no "${words[0]}": npm start -- --help lists the commands`));
} else if (command === 'stop') await stop().catch(fail);
else if (command === 'start') await start().catch(fail);
else if (command === 'uninstall') {
  await uninstall(words, homeOf(process.env, process.cwd()), SHARED_HOME).catch(fail);
} else if (command === 'admin') process.exitCode = await administer().catch(fail);
else fail(new StartProblem(`there is no "${command}": npm start -- --help lists the commands`));

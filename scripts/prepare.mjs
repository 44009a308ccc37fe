/**
 * Prepares each npm script, from a fresh clone on: packages, a new enough Node, compiled code. Runs on any Node from 18
 * on and needs no packages.
 */
import { spawn, spawnSync } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';

export const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
/** The oldest Node that NestJS 12 and MikroORM 7 run on. */
const OLDEST_NODE = [22, 19];

const say = (text) => process.stderr.write(`${text}\n`);
const fail = (text) => {
  say(`slipway: ${text}`);
  process.exit(1);
};

/**
 * Runs `work`, and prints its name and duration. `files` are those that it makes: on a terminal, a line shows how many
 * exist.
 */
function step(title, files, usualSeconds, work) {
  const begin = Date.now();
  const erase = showProgress(title, files, usualSeconds);
  work();
  erase();
  say(`✓ ${title} (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
}

const isTerminal = process.stderr.isTTY === true;
/** Maximum milliseconds to wait for the thread that shows the progress. */
const ERASE_MS = 1_000;

/** Returns a function that erases the line. */
function showProgress(title, files, usualSeconds) {
  if (!isTerminal || files.every((file) => existsSync(file))) return () => {};
  const signals = new Int32Array(new SharedArrayBuffer(8));
  const worker = new Worker(new URL('./prepare-progress.mjs', import.meta.url), {
    workerData: { title, files, usualSeconds, signals },
  });
  // Without the thread, only the line is missing.
  worker.on('error', () => {});
  worker.unref();
  return () => {
    Atomics.store(signals, 0, 1);
    Atomics.notify(signals, 0);
    Atomics.wait(signals, 1, 0, ERASE_MS);
  };
}

/** The registry may be unreachable for a moment. */
const INSTALL_TRIES = 3;

function mustRun(command, args, hint, tries = 1) {
  // npm's own summary would end up within the line of `step`. Its errors are on the other stream.
  const stdout = command === 'npm' ? 'ignore' : 2;
  const { status, error, signal } = spawnSync(command, args, { cwd: root, stdio: ['ignore', stdout, 2] });
  if (error) fail(`${command}: ${error.message}`);
  if (signal === 'SIGINT') process.exit(130);
  if (status === 0) return;
  if (tries > 1) {
    say(`… ${command} ended with ${signal ?? `status ${status}`}, and runs again`);
    return mustRun(command, args, hint, tries - 1);
  }
  fail(`${hint} (${command} ended with ${signal ?? `status ${status}`})`);
}

function isInstalled() {
  const written = path.join(root, 'node_modules', '.package-lock.json');
  return existsSync(written) && statSync(written).mtimeMs >= statSync(path.join(root, 'package-lock.json')).mtimeMs;
}

function isNewEnough(version) {
  const [major, minor] = version.split('.').map(Number);
  return major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1]);
}

/** Path of this Node if it is new enough, else of the one that npm installed. */
export function nodeBinary() {
  if (isNewEnough(process.versions.node)) return process.execPath;
  const binary = path.join(root, 'node_modules', `node-${process.platform}-${process.arch}`, 'bin', 'node');
  if (existsSync(binary)) return binary;
  return fail(
    `needs Node ${OLDEST_NODE.join('.')} or newer; this is ${process.versions.node}, and npm has none for ` +
      `${process.platform} on ${process.arch}: install one from nodejs.org`,
  );
}

function install() {
  if (isInstalled()) return;
  // `npm ci` first deletes all packages, which would break a platform that runs from this folder.
  const isFirst = !existsSync(path.join(root, 'node_modules', '.package-lock.json'));
  const command = isFirst ? ['ci'] : ['install', '--no-save'];
  // The line of `step` replaces npm's spinner.
  const args = [...command, '--ignore-scripts', '--loglevel=error', ...(isTerminal ? ['--no-progress'] : [])];
  step('packages installed', packageFiles(), 60, () =>
    mustRun('npm', args, 'the packages could not be installed', INSTALL_TRIES),
  );
}

/** Returns a file of each package that npm installs on this machine. */
function packageFiles() {
  const { packages } = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8'));
  const isForHere = ({ optional, os, cpu, libc }) =>
    !optional ||
    (os?.includes(process.platform) && cpu?.includes(process.arch) && (libc ?? ['glibc']).includes('glibc'));
  const installed = Object.entries(packages).filter(
    ([name, one]) => name.includes('node_modules/') && !one.link && isForHere(one),
  );
  return installed.map(([name]) => path.join(root, name, 'package.json'));
}

function compile() {
  const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const { references = [] } = JSON.parse(readFileSync(path.join(root, 'tsconfig.json'), 'utf8'));
  const files = references.map((workspace) => path.join(root, workspace.path, 'dist', '.tsbuildinfo'));
  step('code compiled', files, 20, () => mustRun(nodeBinary(), [tsc, '-b'], 'the code does not compile'));
}

/** Installs packages and compiles. Two scripts that start at once in one folder take turns. */
export function prepare() {
  const release = takeTurn();
  try {
    install();
    compile();
  } finally {
    release();
  }
}

const TURN_FILE = path.join(root, '.preparing');
const POLL_MS = 200;

function takeTurn() {
  const own = String(process.pid);
  for (let isReported = false; ; isReported = true) {
    try {
      const file = openSync(TURN_FILE, 'wx');
      writeSync(file, own);
      closeSync(file);
      const release = () => rmSync(TURN_FILE, { force: true });
      process.once('exit', release);
      return () => {
        process.off('exit', release);
        release();
      };
    } catch (error) {
      if (error.code !== 'EEXIST') return fail(`${TURN_FILE} cannot be written: ${error.message}`);
    }
    if (!isLocked()) rmSync(TURN_FILE, { force: true });
    else if (!isReported) say(`… waiting for another script that prepares this folder (${TURN_FILE})`);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, POLL_MS);
  }
}

function isLocked() {
  try {
    const holder = Number(readFileSync(TURN_FILE, 'utf8'));
    // The process id is written a moment after the file is created.
    if (!holder) return Date.now() - statSync(TURN_FILE).mtimeMs < 5_000;
    process.kill(holder, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/** Runs a compiled or plain script in place of this one, with the same terminal, signals and exit status. */
export function runNode(args, env = {}) {
  const child = spawn(nodeBinary(), ['--enable-source-maps', '--disable-warning=ExperimentalWarning', ...args], {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  });
  // A Ctrl-C also reaches the child through the terminal. The child treats both signals as one, and this process waits
  // for its exit.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => fail(error.message));
  child.on('exit', (code, signal) => process.exit(signal ? 1 : code));
}

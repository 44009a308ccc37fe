/**
 * What each npm script needs before its own work, from a fresh clone on: packages, a new enough Node, compiled code.
 * Runs on any Node from 18 on and needs nothing installed.
 */
import { spawn, spawnSync } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
/** The oldest Node that NestJS 12 and MikroORM 7 run on. */
const OLDEST_NODE = [22, 19];

const say = (text) => process.stderr.write(`${text}\n`);
const fail = (text) => {
  say(`slipway: ${text}`);
  process.exit(1);
};

/** Runs `work`, and says what it was and how long it took. */
function step(title, work) {
  const begin = Date.now();
  work();
  say(`✓ ${title} (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
}

function mustRun(command, args, hint) {
  const { status, error, signal } = spawnSync(command, args, { cwd: root, stdio: ['ignore', 2, 2] });
  if (error) fail(`${command}: ${error.message}`);
  if (signal === 'SIGINT') process.exit(130);
  if (status !== 0) fail(`${hint} (${command} ended with ${signal ?? `status ${status}`})`);
}

function isInstalled() {
  const written = path.join(root, 'node_modules', '.package-lock.json');
  return existsSync(written) && statSync(written).mtimeMs >= statSync(path.join(root, 'package-lock.json')).mtimeMs;
}

function isNewEnough(version) {
  const [major, minor] = version.split('.').map(Number);
  return major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1]);
}

/** This Node where it is new enough, else the one that npm brought. */
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
  // `npm ci` begins by removing everything, which a platform that runs from this folder would not survive.
  const isFirst = !existsSync(path.join(root, 'node_modules', '.package-lock.json'));
  const command = isFirst ? ['ci'] : ['install', '--no-save'];
  step('packages installed', () =>
    mustRun('npm', [...command, '--ignore-scripts', '--loglevel=error'], 'the packages could not be installed'),
  );
}

function compile() {
  const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  step('code compiled', () => mustRun(nodeBinary(), [tsc, '-b'], 'the code does not compile'));
}

/** Packages and compiled code; two scripts started at once in one folder take turns. */
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
  for (let told = false; ; told = true) {
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
      if (error.code !== 'EEXIST') return fail(`${TURN_FILE} can not be written: ${error.message}`);
    }
    if (!isHeld()) rmSync(TURN_FILE, { force: true });
    else if (!told) say(`… waiting for another script that prepares this folder (${TURN_FILE})`);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, POLL_MS);
  }
}

function isHeld() {
  try {
    const holder = Number(readFileSync(TURN_FILE, 'utf8'));
    // Its number is written a moment after the file is made.
    if (!holder) return Date.now() - statSync(TURN_FILE).mtimeMs < 5_000;
    process.kill(holder, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/** Runs a compiled or plain script in place of this one: same terminal, same signals, same exit status. */
export function runNode(args, env = {}) {
  const child = spawn(nodeBinary(), ['--enable-source-maps', '--disable-warning=ExperimentalWarning', ...args], {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  });
  // A Ctrl-C reaches the child by the terminal too; it takes the two as one, and this process stays until it has ended.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => fail(error.message));
  child.on('exit', (code, signal) => process.exit(signal ? 1 : code));
}

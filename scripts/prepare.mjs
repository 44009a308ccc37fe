/**
 * What each npm script needs before its own work, from a fresh clone on: packages, a new enough Node, compiled code.
 * Runs on any Node from 18 on and needs nothing installed.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
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

export function install() {
  if (isInstalled()) return;
  step('packages installed', () =>
    mustRun('npm', ['ci', '--ignore-scripts', '--loglevel=error'], 'the packages could not be installed'),
  );
}

export function compile() {
  const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  step('code compiled', () => mustRun(nodeBinary(), [tsc, '-b'], 'the code does not compile'));
}

export function prepare() {
  install();
  compile();
}

/** Runs a compiled or plain script in place of this one: same terminal, same signals, same exit status. */
export function runNode(args, env = {}) {
  const { status, signal } = spawnSync(nodeBinary(), ['--enable-source-maps', ...args], {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  });
  process.exitCode = status ?? (signal ? 1 : 0);
}

export const readJson = (file) => JSON.parse(readFileSync(path.join(root, file), 'utf8'));

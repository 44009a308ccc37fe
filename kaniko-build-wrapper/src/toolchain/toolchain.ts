/**
 * Provides the Node and the package manager that a build's sources require. In: a plan, and a function that runs a
 * sealed command. Out: a folder for PATH. Versions that the platform does not have are installed from the registry that
 * the machine's npm is configured for. The project's cache stores them, and the tenant's commands can't change them
 * there.
 */
import { createHash } from 'node:crypto';
import {
  chownSync,
  existsSync,
  mkdirSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import type { Account } from '@slipway/sandbox';
import semver from 'semver';
import { Refused } from '../request.js';
import type { StepCommand } from '../sealed-command.js';
import { smallObject } from '../small-file.js';
import type { MachineNpm } from './machine-npm.js';
import type { Manager, Plan } from './plan.js';

export interface Toolchain {
  /** The folder to add to PATH. */
  bin: string;
  nodeVersion: string;
  /** The package manager and its version. */
  manager: string;
  readable: string[];
}

export interface ToolchainPlace {
  /** This build's folder for links to the programs. */
  bin: string;
  /** The project's folder for installed toolchains. */
  kept: string;
  account: Account | undefined;
  /** Undefined if the machine has no npm. */
  npm: MachineNpm | undefined;
  env: Readonly<Record<string, string>>;
  readable: readonly string[];
  writable: readonly string[];
  run(command: StepCommand): Promise<void>;
}

const NODE_PACKAGE = `node-linux-${process.arch}`;

export async function provideToolchain(plan: Plan, place: ToolchainPlace): Promise<Toolchain> {
  const hasNode = plan.node === undefined || semver.satisfies(process.versions.node, plan.node);
  const packages = [...(hasNode ? [] : [`${NODE_PACKAGE}@${plan.node}`]), ...managerPackage(plan.manager)];
  const folder = packages.length > 0 ? await installed(packages, place) : undefined;
  const inFolder = (name: string) => path.join(folder ?? '', 'node_modules', name);
  const node = hasNode ? process.execPath : path.join(inFolder(NODE_PACKAGE), 'bin/node');
  const { npm } = place;
  const programs: Record<string, string> = {
    node,
    ...(npm && { npm: npm.cli, npx: path.join(path.dirname(npm.cli), 'npx-cli.js') }),
    ...(folder && linksOf(folder)),
  };
  mkdirSync(place.bin, { mode: 0o755 });
  for (const [name, target] of Object.entries(programs))
    if (existsSync(target)) symlinkSync(target, path.join(place.bin, name));
  const nodeVersion = hasNode ? process.versions.node : versionIn(inFolder(NODE_PACKAGE));
  const managerVersion = versionIn(plan.manager.version ? inFolder(packageName(plan.manager)) : (npm?.folder ?? ''));
  return {
    bin: place.bin,
    nodeVersion,
    manager: `${plan.manager.name}@${managerVersion}`,
    readable: [place.bin, node, ...(npm ? [npm.folder] : []), ...(folder ? [folder] : [])],
  };
}

function managerPackage({ name, version }: Manager): string[] {
  if (version === undefined) return [];
  return [`${packageName({ name, version })}@${version}`];
}

const packageName = ({ name, version }: Pick<Manager, 'name' | 'version'>) =>
  name === 'yarn' && semver.intersects(version ?? '1', '>=2') ? '@yarnpkg/cli-dist' : name;

const versionIn = (folder: string) => String(smallObject(folder, 'package.json')?.version ?? 'unknown');

/** Returns the programs of the installed package managers. */
function linksOf(folder: string): Record<string, string> {
  const links = ['npm', 'npx', 'pnpm', 'pnpx', 'yarn', 'yarnpkg'].map((name) => [
    name,
    path.join(folder, 'node_modules/.bin', name),
  ]);
  return Object.fromEntries(
    links.filter(([, link]) => existsSync(link as string)).map(([name, link]) => [name, realpathSync(link as string)]),
  );
}

async function installed(packages: readonly string[], place: ToolchainPlace): Promise<string> {
  const { account, env, npm, kept, run } = place;
  if (npm === undefined) throw new Refused(`This machine has no npm, which installs ${packages.join(' and ')}.`);
  const key = createHash('sha256').update(packages.join('\n')).digest('hex').slice(0, 16);
  const folder = path.join(kept, key);
  if (existsSync(folder)) {
    // The cache removes the least recently used folders first, by this time.
    utimesSync(folder, new Date(), new Date());
    return folder;
  }
  const unfinished = `${folder}.unfinished`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true, mode: 0o755 });
  writeFileSync(path.join(unfinished, 'package.json'), '{"private":true}');
  if (account) chownSync(unfinished, account.uid, account.gid);
  const words = [
    'install',
    '--no-save',
    '--no-package-lock',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
  ];
  const readable = [...place.readable, npm.folder];
  const command = [
    '/bin/sh',
    '-c',
    'cd "$1" && shift && exec "$@"',
    'sh',
    unfinished,
    process.execPath,
    npm.cli,
    ...words,
  ];
  const shown = `The installation of ${packages.join(' and ')}`;
  await run({
    command: [...command, '--', ...packages],
    env,
    readable,
    writable: [...place.writable, unfinished],
    shown,
  });
  if (!existsSync(path.join(unfinished, 'node_modules'))) throw new Refused(`${shown} failed.`);
  renameSync(unfinished, folder);
  return folder;
}

/**
 * Compares a machine with its desired state, and repairs what differs. Runs on the machine as root, by the Node of the
 * release. It is sent as one file, so it imports only Node's own modules. Standard input: a MachineState in JSON.
 * Standard output: a Report in JSON. May be repeated after a cut at any line.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  closeSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import type { MachineFile, MachineState, MachineUnit } from '../state/state.js';

const RECORDS = '/var/lib/slipway/machine';
const UNITS = '/etc/systemd/system';
const FIREWALL = 'slipway-firewall';
const SYSUSERS = '/etc/sysusers.d/slipway.conf';
/** The timeout of one program, of which apt takes longest. */
const APT_MS = 4 * 60_000;
const INSTALL = ['-y', '-q', '--no-install-recommends', '-o', 'DPkg::Lock::Timeout=60'];

const input = readFileSync(0);
const state = JSON.parse(input.toString()) as MachineState;
const repaired: string[] = [];
/** Paths of files that were written or deleted. A record keeps them until their units have restarted. */
const changed = new Set<string>(readRecord<string[]>('changed') ?? []);

const run = (program: string, ...args: string[]) => execFileSync(program, args, { encoding: 'utf8', timeout: APT_MS });
const failsQuietly = (program: string, ...args: string[]) => spawnSync(program, args, { encoding: 'utf8' });
const unitPath = (name: string) => `${UNITS}/${name}.service`;

function readRecord<T>(name: string): T | undefined {
  try {
    return JSON.parse(readFileSync(`${RECORDS}/${name}`, 'utf8')) as T;
  } catch {
    return undefined;
  }
}

function writeWhole(file: string, content: string, mode: number, [uid, gid]: [number, number]): void {
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o755 });
  const partial = `${file}.slipway-new`;
  rmSync(partial, { force: true });
  writeFileSync(partial, content, { mode: 0o600, flag: 'wx' });
  chownSync(partial, uid, gid);
  chmodSync(partial, mode);
  const handle = openSync(partial, 'r');
  fsyncSync(handle);
  closeSync(handle);
  renameSync(partial, file);
}

const writeRecord = (name: string, value: unknown) =>
  writeWhole(`${RECORDS}/${name}`, JSON.stringify(value), 0o600, [0, 0]);

function maskUnits(): void {
  const shown = failsQuietly('systemctl', 'is-enabled', ...state.masked.map((name) => `${name}.service`)).stdout;
  const words = shown.trim().split('\n');
  if (words.every((word) => word === 'masked')) return;
  run('systemctl', 'mask', '--now', ...state.masked.map((name) => `${name}.service`));
}

function installPackages(): void {
  const shown = failsQuietly(
    'dpkg-query',
    '--show',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the format of dpkg-query looks like a template.
    '--showformat=${db:Status-Status} ${Package}\n',
    ...state.packages,
  );
  const present = new Set(shown.stdout.split('\n').map((line) => /^installed (.*)$/.exec(line)?.[1]));
  const missing = state.packages.filter((name) => !present.has(name));
  if (missing.length === 0) return;
  const environment = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const options = { env: environment, encoding: 'utf8', timeout: APT_MS } as const;
  if (spawnSync('apt-get', ['install', ...INSTALL, ...missing], options).status !== 0) {
    execFileSync('apt-get', ['update', '-q'], options);
    execFileSync('apt-get', ['install', ...INSTALL, ...missing], options);
  }
  for (const name of missing) repaired.push(`package ${name}, which was missing`);
}

/** Returns ids by name, from /etc/passwd or /etc/group. */
const idsIn = (file: string) =>
  new Map(
    readFileSync(file, 'utf8')
      .split('\n')
      .map((line) => [line.split(':')[0] ?? '', Number(line.split(':')[2])]),
  );

function ownerOf(owner: string): [number, number] {
  const [user = '', group = ''] = owner.split(':');
  const ids: [number | undefined, number | undefined] = [
    idsIn('/etc/passwd').get(user),
    idsIn('/etc/group').get(group),
  ];
  if (ids.includes(undefined)) throw new Error(`The account or group of ${owner} does not exist.`);
  return ids as [number, number];
}

/** Returns why the file is not as it should be. */
function difference({ path: file, mode, content }: MachineFile, [uid, gid]: [number, number]): string | undefined {
  const found = lstatSync(file, { throwIfNoEntry: false });
  if (!found) return 'was missing';
  if (!found.isFile()) return 'was no file';
  if (readFileSync(file, 'utf8') !== content) return 'had other content';
  if ((found.mode & 0o7777) !== mode || found.uid !== uid || found.gid !== gid) return 'had other permissions';
  return undefined;
}

function repairFile(file: MachineFile): void {
  const owner = ownerOf(file.owner);
  const why = difference(file, owner);
  if (!why) return;
  changed.add(file.path);
  writeRecord('changed', [...changed]);
  if (why === 'was no file') rmSync(file.path, { recursive: true });
  writeWhole(file.path, file.content, file.mode, owner);
  repaired.push(`file ${file.path}, which ${why}`);
}

function repairFiles(): void {
  const accounts = state.files.filter((file) => file.path === SYSUSERS);
  for (const file of accounts) repairFile(file);
  run('systemd-sysusers', SYSUSERS);
  for (const file of state.files) repairFile(file);
  const wanted = new Set(state.files.map((file) => file.path));
  const own = (name: string) => name.startsWith('slipway-');
  const additions = readdirSync(UNITS).filter((name) => own(name) && name.endsWith('.service.d'));
  const old = (readRecord<string[]>('files') ?? []).filter((file) => !wanted.has(file) && !wantedUnit(file));
  for (const file of [...old, ...additions.map((name) => `${UNITS}/${name}`)]) {
    if (!lstatSync(file, { throwIfNoEntry: false })) continue;
    const unit = /\/(slipway-[\w-]+)\.service(\.d)?$/.exec(file);
    if (unit && !unit[2]) failsQuietly('systemctl', 'disable', '--now', `${unit[1]}.service`);
    if (unit) changed.add(unitPath(unit[1] as string));
    writeRecord('changed', [...changed]);
    rmSync(file, { recursive: true });
    repaired.push(`file ${file}, which should not exist`);
  }
  writeRecord('files', [...wanted]);
}

const wantedUnit = (file: string) => state.units.some(({ name }) => unitPath(name) === file);

/** The rules as the kernel has them, compared with those after the last load. */
function firewallDiffers(): boolean {
  if (!state.units.some(({ name }) => name === FIREWALL)) return false;
  return listedRules() !== readRecord<string>('firewall');
}

const listedRules = () => failsQuietly('nft', '--stateless', 'list', 'table', 'inet', 'slipway').stdout;

interface Shown {
  active: string;
  enabled: string;
}

function shownUnits(): Map<string, Shown> {
  const names = state.units.map(({ name }) => `${name}.service`);
  const text = run('systemctl', 'show', '--property=Id,ActiveState,UnitFileState', ...names);
  return new Map(
    text
      .trim()
      .split('\n\n')
      .map((block) => {
        const values = new Map(block.split('\n').map((line) => line.split('=') as [string, string]));
        const shown = { active: values.get('ActiveState') ?? '', enabled: values.get('UnitFileState') ?? '' };
        return [(values.get('Id') ?? '').replace(/\.service$/, ''), shown];
      }),
  );
}

/** Returns what is to be done with the unit, if anything. */
function repairOf(unit: MachineUnit, shown: Shown | undefined): 'start' | 'reload-or-restart' | 'restart' | undefined {
  const isUp = shown?.active !== 'inactive' && shown?.active !== 'failed';
  if (unit.isOwn && !isUp) return 'start';
  if (changed.has(unitPath(unit.name))) return 'restart';
  if (unit.files.some((file) => changed.has(file))) return unit.onChange === 'reload' ? 'reload-or-restart' : 'restart';
  return undefined;
}

function repairUnits(): void {
  if ([...changed].some((file) => file.startsWith(UNITS))) run('systemctl', 'daemon-reload');
  const isFirst = readRecord('complete') === undefined;
  const before = shownUnits();
  for (const unit of state.units) {
    const shown = before.get(unit.name);
    const service = `${unit.name}.service`;
    if (unit.isOwn && shown?.enabled !== 'enabled') {
      run('systemctl', 'enable', '--quiet', service);
      if (!isFirst) repaired.push(`unit ${unit.name}, which was disabled`);
    }
    let action = repairOf(unit, shown);
    if (action === 'start' && !isFirst) {
      repaired.push(`unit ${unit.name}, which ${shown?.active === 'failed' ? 'had failed' : 'was stopped'}`);
    }
    if (unit.name === FIREWALL && firewallDiffers()) {
      if (!action && !isFirst) repaired.push('the packet filter, whose rules were changed');
      action = 'restart';
    }
    // A unit that does not start is in the report, and does not keep the others from starting.
    if (action) failsQuietly('systemctl', action, service);
    if (unit.name === FIREWALL && action) writeRecord('firewall', listedRules());
  }
}

function main(): void {
  // Units have folders beside it.
  mkdirSync(path.dirname(RECORDS), { recursive: true, mode: 0o755 });
  mkdirSync(RECORDS, { recursive: true, mode: 0o700 });
  maskUnits();
  installPackages();
  repairFiles();
  repairUnits();
  rmSync(`${RECORDS}/changed`, { force: true });
  writeRecord('complete', true);
  const hash = createHash('sha256').update(input).digest('hex');
  const down = [...shownUnits()].filter(([, { active }]) => active !== 'active' && active !== 'reloading');
  process.stdout.write(JSON.stringify({ hash, repaired, down: down.map(([name]) => name) }));
}

main();

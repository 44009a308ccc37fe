/**
 * The units of a machine over SSH: their states, and restarts on request. In: an SSH client of root. Out: states as the
 * status shows them, and the outcome of the last restart of each unit, which the machine records.
 */
import {
  isRestartable,
  MACHINE_UNITS,
  type MachineUnit,
  type RestartableUnit,
  systemdUnitOf,
  type UnitStatus,
} from '@slipway/crds';
import type { MachineView } from '../../../capabilities/index.js';
import type { CommandOptions, CommandResult } from '../ssh/command.js';

/** The part of `SshClient` that units need. */
export interface CommandRunner {
  run(args: readonly [string, ...string[]], options: CommandOptions, signal: AbortSignal): Promise<CommandResult>;
}

type Units = NonNullable<MachineView['units']>;
type Restarts = NonNullable<MachineView['restarts']>;
export type UnitState = Units[string];
export type UnitRestart = Restarts[string];

export interface SeenUnits {
  /** Units that the machine does not have yet are left out. */
  units: Partial<Record<MachineUnit, UnitState>>;
  restarts: Partial<Record<RestartableUnit, UnitRestart>>;
}

/** A file for each unit: the number of the last restart, its time in seconds since 1970, and the error if it failed. */
const RECORDS = '/var/lib/slipway/machine/restarts';
const LOOK_MS = 15_000;
/** A service has 30 s to stop. Each restart also watches the unit for a second. */
const RESTART_MS = 50_000;
/** Characters of an error. */
const MOST_SHOWN = 300;

const PROPERTIES = ['Id', 'LoadState', 'ActiveState', 'StateChangeTimestamp', 'NRestarts', 'MainPID', 'MemoryCurrent'];
const SERVICES = MACHINE_UNITS.map((unit) => `${systemdUnitOf(unit)}.service`);
const LOOK = `
systemctl show --timestamp=unix --property=${PROPERTIES.join(',')} ${SERVICES.join(' ')}
echo
grep -H . ${RECORDS}/* 2>/dev/null || true
`;

/**
 * Restarts the unit $1 without the pause that systemd makes after crashes, and records $2. If the connection ends, it
 * continues. If the machine ends before the record is written, the restart is repeated.
 */
const RESTART = `
unit=$1 number=$2
systemctl reset-failed "slipway-$unit.service" 2>/dev/null
if why=$(systemctl restart "slipway-$unit.service" 2>&1); then
  why=
  sleep 1
  systemctl is-active --quiet "slipway-$unit.service" || why='The unit ended again after its start.'
fi
why=$(printf %s "$why" | tr -s '[:cntrl:][:space:]' ' ' | cut -c 1-${MOST_SHOWN})
mkdir -p -m 700 ${RECORDS}
printf '%s %s %s\\n' "$number" "$(date +%s)" "$why" > "${RECORDS}/.$unit"
sync "${RECORDS}/.$unit"
mv "${RECORDS}/.$unit" "${RECORDS}/$unit"
`;

export async function readUnits(machine: CommandRunner, signal: AbortSignal): Promise<SeenUnits> {
  // The timeout of a command does not include the connection.
  const ends = AbortSignal.any([signal, AbortSignal.timeout(LOOK_MS)]);
  const { stdout } = await machine.run(['sh', '-c', LOOK], { timeoutMs: LOOK_MS }, ends);
  return parseUnits(stdout);
}

/** Resolves once the outcome is recorded. `readUnits` returns it. */
export async function restartUnit(
  machine: CommandRunner,
  { unit, number }: { unit: RestartableUnit; number: number },
  signal: AbortSignal,
): Promise<void> {
  await machine.run(['sh', '-c', RESTART, 'sh', unit, String(number)], { timeoutMs: RESTART_MS }, signal);
}

/** `text`: the output of `systemctl show` with times in seconds, and the lines of the records. */
export function parseUnits(text: string): SeenUnits {
  const units: SeenUnits['units'] = {};
  for (const block of text.split('\n\n')) {
    const values = new Map(block.split('\n').map((line) => splitOnce(line, '=')));
    const unit = MACHINE_UNITS.find((name) => values.get('Id') === `${systemdUnitOf(name)}.service`);
    if (unit && values.get('LoadState') === 'loaded') units[unit] = unitOf(values);
  }
  const restarts: SeenUnits['restarts'] = {};
  for (const [, unit = '', number, seconds, error] of text.matchAll(/^\/.*\/([a-z]+):(\d{1,10}) (\d{1,12}) ?(.*)$/gm)) {
    if (!isRestartable(unit)) continue;
    const at = timeOf(Number(seconds));
    restarts[unit] = { number: Number(number), at, ...(error && { error: error.slice(0, MOST_SHOWN) }) };
  }
  return { units, restarts };
}

const STATUSES: Record<string, UnitStatus> = {
  active: 'running',
  reloading: 'running',
  refreshing: 'running',
  activating: 'starting',
  deactivating: 'stopping',
  inactive: 'stopped',
  failed: 'failed',
};

function unitOf(values: ReadonlyMap<string, string>): UnitState {
  const since = /^@(\d{1,12})$/.exec(values.get('StateChangeTimestamp') ?? '')?.[1];
  const [restarts, mainPid, memory] = ['NRestarts', 'MainPID', 'MemoryCurrent'].map((name) =>
    wholeNumber(values.get(name)),
  );
  return {
    status: STATUSES[values.get('ActiveState') ?? ''] ?? 'unknown',
    ...(since !== undefined && Number(since) > 0 && { since: timeOf(Number(since)) }),
    ...(restarts !== undefined && { restarts }),
    // 0: it has no process.
    ...(mainPid && { mainPid }),
    ...(memory !== undefined && { memoryBytes: memory }),
  };
}

/** Undefined for `[not set]`, and for 2⁶⁴ - 1, which older versions of systemd print in its place. */
function wholeNumber(text = ''): number | undefined {
  const number = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(number) ? number : undefined;
}

const timeOf = (seconds: number) => new Date(seconds * 1000).toISOString();

function splitOnce(line: string, separator: string): [string, string] {
  const at = line.indexOf(separator);
  return at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + 1)];
}

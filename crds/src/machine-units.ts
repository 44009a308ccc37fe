/** The units of a dedicated project's machine, by their names in the API. */

export const MACHINE_UNITS = [
  'auth',
  'postgrest',
  'storage',
  'realtime',
  'functions',
  'nginx',
  'postgres',
  'pgbouncer',
] as const;
export type MachineUnit = (typeof MACHINE_UNITS)[number];

/** The units that an owner restarts. */
export const RESTARTABLE_UNITS = [
  'auth',
  'postgrest',
  'storage',
  'realtime',
  'nginx',
] as const satisfies readonly MachineUnit[];
export type RestartableUnit = (typeof RESTARTABLE_UNITS)[number];

export const isRestartable = (unit: string): unit is RestartableUnit =>
  (RESTARTABLE_UNITS as readonly string[]).includes(unit);

export const UNIT_STATUSES = ['running', 'starting', 'stopping', 'stopped', 'failed', 'unknown'] as const;
export type UnitStatus = (typeof UNIT_STATUSES)[number];

/** Returns the unit's name in systemd, without `.service`. */
export const systemdUnitOf = (unit: MachineUnit): string => `slipway-${unit}`;

/** One service of the data plane as a unit. The caller names its program and environment. */

import { SETTINGS, stateFolder } from './paths.js';
import { POSTGRES_UNIT } from './postgres.js';
import { commandLine, environmentFile, programPath, releaseId } from './quoting.js';
import { memoryMax } from './sizes.js';
import type { Part, StateRequest } from './state.js';
import { unitFile } from './unit.js';

/** Named as in the API. Each listens at `/run/slipway/<name>/http.sock`, and may write `/var/lib/slipway/<name>`. */
export const SERVICES = ['auth', 'postgrest', 'storage', 'realtime', 'functions'] as const;
export type ServiceUnit = (typeof SERVICES)[number];

export interface ServiceProgram {
  /** An absolute path, such as `/opt/slipway/current/bin/node`, and arguments, which everybody on the machine sees. */
  command: readonly [string, ...string[]];
  /** May have secrets: only root can read the file. */
  environment: Readonly<Record<string, string>>;
  /** Folders besides its own that it may write. */
  writable?: readonly string[];
  /** Paths of files of the request whose change restarts it. */
  files?: readonly string[];
}

export function service(name: ServiceUnit, { release, machine, services }: StateRequest): Part {
  const { command, environment, writable = [], files = [] } = services[name];
  const unit = `slipway-${name}`;
  const environmentPath = `${SETTINGS}/services/${name}.env`;
  const isFunctions = name === 'functions';
  const unitOf = unitFile({
    name: unit,
    description: `Slipway: ${name}`,
    after: [POSTGRES_UNIT],
    user: unit,
    group: unit,
    memoryMax: memoryMax(machine, isFunctions ? 'functions' : 'service'),
    tasksMax: isFunctions ? 2000 : 200,
    confines: isFunctions,
    lines: [
      'Type=exec',
      'CapabilityBoundingSet=',
      `X-Release=${releaseId(release)}`,
      `EnvironmentFile=${environmentPath}`,
      `ExecStart=${commandLine(command)}`,
      `WorkingDirectory=${stateFolder(name)}`,
      `StateDirectory=slipway/${name}`,
      'StateDirectoryMode=0700',
      `RuntimeDirectory=slipway/${name}`,
      // nginx is a member of the group, and connects to the socket.
      'RuntimeDirectoryMode=0750',
      'UMask=0007',
      'TimeoutStopSec=30s',
      // A function that exceeds the memory ends alone, instead of the unit.
      ...(isFunctions ? ['OOMPolicy=continue'] : []),
      ...writable.map((folder) => `ReadWritePaths=${programPath(folder)}`),
    ],
  });
  const environmentOf = {
    path: environmentPath,
    mode: 0o600,
    owner: 'root:root',
    content: environmentFile(environment),
  };
  return {
    files: [environmentOf, unitOf],
    units: [{ name: unit, isOwn: true, onChange: 'restart', files: [environmentPath, ...files] }],
  };
}

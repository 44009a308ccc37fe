/** The unit file of a systemd service, hardened. Every unit of a machine is made here. */
import { UNIT_FOLDER } from './paths.js';
import type { MachineFile } from './state.js';

export interface UnitFile {
  name: string;
  description: string;
  /** Names of units, without `.service`. */
  after: readonly string[];
  /** The account and its main group. */
  user: string;
  group: string;
  memoryMax: string;
  tasksMax: number;
  /** True for programs that make namespaces and mount /proc themselves, to confine others. */
  confines?: boolean;
  /** Further lines of `[Service]`. */
  lines: readonly string[];
}

const HARDENED = [
  'NoNewPrivileges=yes',
  'ProtectSystem=strict',
  'ProtectHome=yes',
  'PrivateTmp=yes',
  'ProtectControlGroups=yes',
  'ProtectKernelModules=yes',
  'ProtectClock=yes',
  'RestrictSUIDSGID=yes',
  'RestrictRealtime=yes',
  'LockPersonality=yes',
  'SystemCallArchitectures=native',
  'RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK',
  // The provider's metadata service. The firewall denies it too.
  'IPAddressDeny=169.254.169.254/32',
];
/** The kernel denies a mount of /proc in a namespace while parts of /proc are hidden. */
const HARDENED_WITHOUT_NAMESPACES = ['ProtectKernelTunables=yes', 'ProtectKernelLogs=yes', 'RestrictNamespaces=yes'];

export function unitFile(unit: UnitFile): MachineFile {
  const after = unit.after.map((name) => `${name}.service`).join(' ');
  const lines = [
    '[Unit]',
    `Description=${unit.description}`,
    `After=network.target ${after}`.trimEnd(),
    // systemd would give up after five starts.
    'StartLimitIntervalSec=0',
    '',
    '[Service]',
    `User=${unit.user}`,
    `Group=${unit.group}`,
    'Restart=always',
    'RestartSec=500ms',
    // systemd 252 has no growing pauses of its own.
    `ExecStartPre=+/etc/slipway/pause-before-restart ${unit.name}.service`,
    'Slice=system-slipway.slice',
    `MemoryMax=${unit.memoryMax}`,
    `TasksMax=${unit.tasksMax}`,
    ...HARDENED,
    ...(unit.confines ? [] : HARDENED_WITHOUT_NAMESPACES),
    ...unit.lines,
    '',
    '[Install]',
    'WantedBy=multi-user.target',
  ];
  return rootFile(`${UNIT_FOLDER}/${unit.name}.service`, `${lines.join('\n')}\n`);
}

/** A file without secrets. */
export const rootFile = (path: string, content: string, mode = 0o644): MachineFile => ({
  path,
  mode,
  owner: 'root:root',
  content,
});

/** The accounts of the units, the size of the journal, and the pause before restarts. */
import { SETTINGS } from './paths.js';
import { SERVICES } from './service.js';
import type { Part } from './state.js';
import { rootFile } from './unit.js';

const ACCOUNTS = ['postgres', 'pgbouncer', 'nginx', ...SERVICES].map((name) => `slipway-${name}`);

/** Members of this group may connect to the socket of Postgres. */
const DATABASE = 'slipway-database';
/** Members of this group may read the private key of the certificate. */
const TLS = 'slipway-tls';
/** Members of this group may read the project's document. */
const PROJECT = 'slipway-project';
const MEMBERS: [account: string, group: string][] = [
  ...['pgbouncer', ...SERVICES].map((name): [string, string] => [`slipway-${name}`, DATABASE]),
  ...SERVICES.map((name): [string, string] => [`slipway-${name}`, PROJECT]),
  ['slipway-pgbouncer', TLS],
  ['slipway-nginx', TLS],
  ...SERVICES.map((name): [string, string] => ['slipway-nginx', `slipway-${name}`]),
];

const SYSUSERS = [
  ...[DATABASE, PROJECT, TLS].map((group) => `g ${group} -`),
  ...ACCOUNTS.map((account) => `u ${account} - "Slipway" /nonexistent`),
  ...MEMBERS.map(([account, group]) => `m ${account} ${group}`),
];

const JOURNALD = ['[Journal]', 'SystemMaxUse=500M', 'RuntimeMaxUse=64M', 'RateLimitBurst=5000'];

/** A unit that ran for five minutes restarts at once. Another one waits for 1, 2, 4, … at most 30 seconds. */
const PAUSE = `#!/bin/sh
set -eu
restarts=$(systemctl show --property=NRestarts --value "$1")
began=$(systemctl show --property=ExecMainStartTimestampMonotonic --value "$1")
ended=$(systemctl show --property=ExecMainExitTimestampMonotonic --value "$1")
if [ "$restarts" -eq 0 ] || [ $((ended - began)) -gt 300000000 ]; then exit 0; fi
pause=1
while [ "$restarts" -gt 1 ] && [ "$pause" -lt 30 ]; do pause=$((pause * 2)) restarts=$((restarts - 1)); done
if [ "$pause" -gt 30 ]; then pause=30; fi
sleep "$pause"
`;

const JOURNALD_FILE = '/etc/systemd/journald.conf.d/slipway.conf';

export const host = (): Part => ({
  files: [
    rootFile('/etc/sysusers.d/slipway.conf', `${SYSUSERS.join('\n')}\n`),
    rootFile(JOURNALD_FILE, `${JOURNALD.join('\n')}\n`),
    rootFile(`${SETTINGS}/pause-before-restart`, PAUSE, 0o755),
  ],
  units: [{ name: 'systemd-journald', isOwn: false, onChange: 'restart', files: [JOURNALD_FILE] }],
});

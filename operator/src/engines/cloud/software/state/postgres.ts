/** Postgres of the release. It listens on a Unix socket alone, and its first start makes the cluster. */
import { REPLICATION_ROLE } from '@slipway/installation';
import { POOLER_ROLE, POSTGRES_SOCKET, RELEASE, SETTINGS } from './paths.js';
import { oneLine, releaseId } from './quoting.js';
import { memoryMax, postgresSizes } from './sizes.js';
import type { MachineFile, Part, StateRequest } from './state.js';
import { rootFile, unitFile } from './unit.js';

export const POSTGRES_UNIT = 'slipway-postgres';
const FOLDER = `${SETTINGS}/postgres`;
const DATA = '/var/lib/slipway/postgres';

const FIXED = {
  listen_addresses: '',
  unix_socket_directories: POSTGRES_SOCKET,
  unix_socket_group: 'slipway-database',
  unix_socket_permissions: '0770',
  hba_file: `${FOLDER}/pg_hba.conf`,
  ident_file: `${FOLDER}/pg_ident.conf`,
  password_encryption: 'scram-sha-256',
  superuser_reserved_connections: 5,
  // For the services, which have pg_use_reserved_connections.
  reserved_connections: 20,
  // Realtime reads changes by logical decoding.
  wal_level: 'logical',
  max_wal_senders: 10,
  max_replication_slots: 10,
  max_slot_wal_keep_size: '1GB',
  max_wal_size: '2GB',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
};

/**
 * pgbouncer reads the verifiers of passwords as a role that only its account can become. It reads them in the database
 * that a client asks for, where only the project's roles and that of realtime may connect.
 */
const ACCESS = `local all ${POOLER_ROLE} peer map=pgbouncer
local all,replication all scram-sha-256
`;
const IDENTITIES = `pgbouncer slipway-pgbouncer ${POOLER_ROLE}\n`;

/** A cluster appears by a rename, complete. That of another major version is refused. */
const START = `#!/bin/sh
set -eu
programs=${RELEASE}/postgres/bin
major=$("$programs/postgres" --version | sed -E 's/.* ([0-9]+)\\..*/\\1/')
data=${DATA}/$major
if [ ! -e "$data" ]; then
  for other in ${DATA}/[0-9]*; do
    case $other in *.partial | *'[0-9]*') continue ;; esac
    echo "$other is a cluster of another major version of Postgres, and this release has $major." >&2
    exit 1
  done
  rm -rf "$data.partial"
  "$programs/initdb" --pgdata "$data.partial" --username slipway --pwfile ${FOLDER}/superuser-password \\
    --auth scram-sha-256 --encoding UTF8 --locale C --locale-provider builtin --builtin-locale C.UTF-8 >/dev/null
  printf '%s\\n' 'CREATE ROLE ${POOLER_ROLE} LOGIN IN ROLE pg_read_all_data;' \\
    'CREATE ROLE ${REPLICATION_ROLE} REPLICATION NOLOGIN;' \\
    'GRANT ${REPLICATION_ROLE} TO ${POOLER_ROLE} WITH INHERIT TRUE, SET FALSE;' |
    "$programs/postgres" --single -D "$data.partial" postgres >/dev/null
  sync --file-system "$data.partial"
  mv -T "$data.partial" "$data"
fi
exec "$programs/postgres" -D "$data" -c config_file=${FOLDER}/postgresql.conf
`;

/** Postgres writes this line once it accepts connections, also after a recovery. */
const WAIT = `#!/bin/sh
until grep -qs '^ready' ${DATA}/*/postmaster.pid; do
  kill -0 "$1" || exit 1
  sleep 0.1
done
`;

export function postgres({ release, machine, superuserPassword }: StateRequest): Part {
  const settings = Object.entries({ ...FIXED, ...postgresSizes(machine) });
  const password = `${oneLine(superuserPassword, "The superuser's password")}\n`;
  const secret = (path: string, content: string): MachineFile => ({
    path,
    mode: 0o600,
    owner: 'slipway-postgres:slipway-postgres',
    content,
  });
  const read = [
    rootFile(`${FOLDER}/postgresql.conf`, settings.map(([name, value]) => `${name} = '${value}'\n`).join('')),
    rootFile(`${FOLDER}/pg_hba.conf`, ACCESS),
    rootFile(`${FOLDER}/pg_ident.conf`, IDENTITIES),
    rootFile(`${FOLDER}/start`, START, 0o755),
  ];
  const others = [
    rootFile(`${FOLDER}/wait`, WAIT, 0o755),
    secret(`${FOLDER}/superuser-password`, password),
    unitOf(release, memoryMax(machine, 'postgres')),
  ];
  const files = read.map(({ path }) => path);
  return { files: [...read, ...others], units: [{ name: POSTGRES_UNIT, isOwn: true, onChange: 'restart', files }] };
}

const unitOf = (release: string, memory: string) =>
  unitFile({
    name: POSTGRES_UNIT,
    description: 'Slipway: Postgres',
    after: ['slipway-firewall'],
    user: 'slipway-postgres',
    group: 'slipway-postgres',
    memoryMax: memory,
    tasksMax: 1000,
    lines: [
      'SupplementaryGroups=slipway-database',
      // The account of the main process has changed before the wait looks at it.
      'Type=exec',
      `X-Release=${releaseId(release)}`,
      `ExecStart=${FOLDER}/start`,
      `ExecStartPost=${FOLDER}/wait $MAINPID`,
      // A recovery after a power cut may take long.
      'TimeoutStartSec=1h',
      'KillMode=mixed',
      // Fast shutdown: disconnects all clients and writes a checkpoint.
      'KillSignal=SIGINT',
      'TimeoutStopSec=2min',
      'OOMScoreAdjust=-500',
      'OOMPolicy=continue',
      'StateDirectory=slipway/postgres',
      'StateDirectoryMode=0700',
      'RuntimeDirectory=slipway/postgres',
      // The socket has permissions of its own.
      'RuntimeDirectoryMode=0755',
    ],
  });

/**
 * pgbouncer of Debian: Postgres over TLS at port 6543, for `db_url`. Clients log in as with Postgres itself, and
 * pgbouncer has no password: it reads verifiers as a role that only its account can become.
 */
import { CERTIFICATE, POOLER_ROLE, POSTGRES_SOCKET, PRIVATE_KEY, SETTINGS } from './paths.js';
import { POSTGRES_UNIT } from './postgres.js';
import { memoryMax, pooledConnections } from './sizes.js';
import type { MachineFile, Part, StateRequest } from './state.js';
import { unitFile } from './unit.js';

const UNIT = 'slipway-pgbouncer';
const SETTINGS_FILE = `${SETTINGS}/pgbouncer/pgbouncer.ini`;
const USERS_FILE = `${SETTINGS}/pgbouncer/userlist.txt`;

/**
 * Names have their schema, because a tenant decides the search path. Superusers and roles of replication can't log in.
 */
const VERIFIER =
  'SELECT rolname, CASE WHEN rolvaliduntil OPERATOR(pg_catalog.<) pg_catalog.now() THEN NULL ELSE rolpassword END ' +
  'FROM pg_catalog.pg_authid WHERE rolname OPERATOR(pg_catalog.=) $1 AND rolcanlogin ' +
  'AND NOT rolsuper AND NOT rolreplication';

const MOST_CLIENTS = 1000;

export function pgbouncer({ machine }: StateRequest): Part {
  const connections = pooledConnections(machine);
  const settings = {
    listen_addr: '*',
    listen_port: 6543,
    // No socket: programs on the machine connect to Postgres itself.
    unix_socket_dir: '',
    auth_type: 'scram-sha-256',
    auth_file: USERS_FILE,
    auth_user: POOLER_ROLE,
    auth_query: VERIFIER,
    client_tls_sslmode: 'require',
    client_tls_key_file: PRIVATE_KEY,
    client_tls_cert_file: CERTIFICATE,
    client_tls_protocols: 'secure',
    // Prepared statements, LISTEN and SET work as on a direct connection.
    pool_mode: 'session',
    default_pool_size: connections,
    max_db_connections: connections,
    max_client_conn: MOST_CLIENTS,
    server_idle_timeout: 60,
    query_wait_timeout: 30,
    client_login_timeout: 15,
    ignore_startup_parameters: 'extra_float_digits',
    log_connections: 0,
    log_disconnections: 0,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`);
  const databases = `[databases]\n* = host=${POSTGRES_SOCKET} port=5432\n`;
  const file = (path: string, content: string): MachineFile => ({
    path,
    mode: 0o640,
    owner: 'root:slipway-pgbouncer',
    content,
  });
  const read = [
    file(SETTINGS_FILE, `${databases}\n[pgbouncer]\n${lines.join('')}`),
    // The role has no password. The file must name it all the same.
    file(USERS_FILE, `"${POOLER_ROLE}" ""\n`),
  ];
  const files = [...read.map(({ path }) => path), CERTIFICATE, PRIVATE_KEY];
  return {
    files: [...read, unitOf(memoryMax(machine, 'pgbouncer'))],
    units: [{ name: UNIT, isOwn: true, onChange: 'restart', files }],
  };
}

const unitOf = (memory: string) =>
  unitFile({
    name: UNIT,
    description: 'Slipway: pgbouncer',
    after: [POSTGRES_UNIT],
    user: 'slipway-pgbouncer',
    group: 'slipway-pgbouncer',
    memoryMax: memory,
    tasksMax: 16,
    lines: [
      'Type=notify',
      'CapabilityBoundingSet=',
      `ExecStart=/usr/sbin/pgbouncer ${SETTINGS_FILE}`,
      'LimitNOFILE=4096',
      'KillSignal=SIGINT',
      'TimeoutStopSec=10s',
    ],
  });

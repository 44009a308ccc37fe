/** Paths on a machine that several parts of its state name. */
export const UNIT_FOLDER = '/etc/systemd/system';
export const SETTINGS = '/etc/slipway';
export const RELEASE = '/opt/slipway/current';
/** The port is a part of the name of Postgres' Unix socket. */
export const POSTGRES_PORT = 5432;
/** The folder of that socket. */
export const POSTGRES_SOCKET = '/run/slipway/postgres';
/** The role of pgbouncer. `pgbouncer` is a group without login, which the grants of a moved app may name. */
export const POOLER_ROLE = 'slipway_pgbouncer';
export const CERTIFICATE = `${SETTINGS}/tls/certificate.pem`;
export const PRIVATE_KEY = `${SETTINGS}/tls/private-key.pem`;
/** The project's document. It is outside of /etc, because the sandbox of functions shows that folder. */
export const PROJECT_FILE = '/var/lib/slipway/project/project.json';
/** The folder for the sockets of a unit. */
export const runtimeFolder = (unit: string) => `/run/slipway/${unit}`;
/** The folder that a unit keeps. */
export const stateFolder = (unit: string) => `/var/lib/slipway/${unit}`;
export const socketOf = (unit: string) => `${runtimeFolder(unit)}/http.sock`;

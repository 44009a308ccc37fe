/** Paths on a machine that several parts of its state name. */
export const UNIT_FOLDER = '/etc/systemd/system';
export const SETTINGS = '/etc/slipway';
export const RELEASE = '/opt/slipway/current';
/** The folder of Postgres' Unix socket. The port, which names the socket, is 5432. */
export const POSTGRES_SOCKET = '/run/slipway/postgres';
export const CERTIFICATE = `${SETTINGS}/tls/certificate.pem`;
export const PRIVATE_KEY = `${SETTINGS}/tls/private-key.pem`;
/** The project's document. It is outside of /etc, because the sandbox of functions shows that folder. */
export const PROJECT_FILE = '/var/lib/slipway/project/project.json';
/** The folder for the sockets of a unit. */
export const runtimeFolder = (unit: string) => `/run/slipway/${unit}`;
/** The folder that a unit keeps. */
export const stateFolder = (unit: string) => `/var/lib/slipway/${unit}`;
export const socketOf = (unit: string) => `${runtimeFolder(unit)}/http.sock`;

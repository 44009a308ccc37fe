/** Paths on a machine that several parts of its state name. */
export const UNIT_FOLDER = '/etc/systemd/system';
export const SETTINGS = '/etc/slipway';
export const RELEASE = '/opt/slipway/current';
/** The folder of Postgres' Unix socket. The port, which names the socket, is 5432. */
export const POSTGRES_SOCKET = '/run/slipway/postgres';
export const CERTIFICATE = `${SETTINGS}/tls/certificate.pem`;
export const PRIVATE_KEY = `${SETTINGS}/tls/private-key.pem`;
export const socketOf = (service: string) => `/run/slipway/${service}/http.sock`;

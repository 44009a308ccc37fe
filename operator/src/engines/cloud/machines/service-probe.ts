/** Finds out whether the services of a machine answer, beside SSH. */
import { connect } from 'node:tls';

const PORT = 443;
const TIMEOUT_MS = 10_000;

/** True if nginx of the machine completes a TLS handshake with its own certificate, in PEM. */
export const servicesAnswer = (host: string, certificate: string): Promise<boolean> =>
  new Promise((resolve) => {
    // The certificate is pinned, so its host name has no meaning.
    const socket = connect({ host, port: PORT, ca: certificate, servername: '', checkServerIdentity: () => undefined });
    const end = (answers: boolean) => {
      socket.destroy();
      resolve(answers);
    };
    socket.setTimeout(TIMEOUT_MS, () => end(false));
    socket.once('secureConnect', () => end(true));
    socket.once('error', () => end(false));
  });

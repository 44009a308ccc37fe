/**
 * Opens TLS connections to a server that is known by its certificate alone. In: an address and the pinned certificate.
 * Out: a connection whose server has proven that it has the certificate's key, or an error. No byte of a request can
 * be sent before, because callers get the connection after the handshake.
 */
import { connect, type TLSSocket } from 'node:tls';

export interface Pin {
  /** Key of the connections that are closed together, such as a project's ref. Owners never share a connection. */
  owner: string;
  /** The only certificate that the server may have, in PEM. */
  certificate: string;
}

export interface PinnedTarget {
  host: string;
  port: number;
  pin: Pin;
  /** Aborts the handshake; its reason is the error. */
  handshake: AbortSignal;
  /** Milliseconds without data. */
  timeout?: number | undefined;
}

type Opened = (error: Error | null, socket?: TLSSocket) => void;

/** Returns the socket, which is not for use before `opened` is called with it. */
export function connectPinned({ host, port, pin, handshake, timeout }: PinnedTarget, opened: Opened): TLSSocket {
  const socket = connect({
    host,
    port,
    ca: pin.certificate,
    rejectUnauthorized: true,
    minVersion: 'TLSv1.2',
    // An address is no server name (RFC 6066, 3).
    servername: '',
    ALPNProtocols: ['http/1.1'],
    // The pin replaces the check of the name. A certificate that the pinned one has signed is not the pinned one.
    checkServerIdentity: (_, { raw }) =>
      raw?.equals(derOf(pin.certificate)) ? undefined : new Error('the server has another certificate'),
    timeout,
  });
  socket.setNoDelay(true);
  const abort = () => socket.destroy(handshake.reason as Error);
  const end = (error: Error | null) => {
    handshake.removeEventListener('abort', abort);
    socket.off('secureConnect', verified).off('close', closed);
    opened(error, error ? undefined : socket);
  };
  const verified = () => end(null);
  let failure: Error | undefined;
  const closed = () => end(failure ?? new Error('the connection was closed during the handshake'));
  // The listener stays: between two requests the socket has no other.
  socket.on('error', (error: Error) => {
    failure = error;
  });
  socket.once('secureConnect', verified).once('close', closed);
  handshake.addEventListener('abort', abort);
  return socket;
}

const derOf = (pem: string) => Buffer.from(pem.replaceAll(/-----[A-Z ]+-----|\s/g, ''), 'base64');

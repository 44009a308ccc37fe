/**
 * HTTP server of one program for another program of the platform. Only the platform's account can connect to a Unix
 * socket. At a port each request needs the bearer token.
 */
import { chmod } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http';
import { listen } from './listening.js';
import { isSameSecret } from './same-secret.js';

/** Path of a Unix socket, or `host:port` with a token, which is read at each request: a Secret may be replaced. */
export type InternalPlace = { socket: string } | { listen: string; token(): string };

/** `body`: encoded as JSON. Undefined: the response has none. */
export interface InternalAnswer {
  status: number;
  body?: unknown;
}

export interface InternalServerOptions extends Pick<ServerOptions, 'requestTimeout'> {
  answer(incoming: IncomingMessage): Promise<InternalAnswer>;
  /** Receives errors of `answer`, for which the response is 500, and of an unreadable token, for which it is 401. */
  onError(error: unknown): void;
}

const UNAUTHORIZED: InternalAnswer = { status: 401, body: { message: 'the token is missing or another' } };
const FAILED: InternalAnswer = {
  status: 500,
  body: { message: 'The request failed; the program’s log has the reason' },
};

export async function startInternalServer(
  place: InternalPlace,
  { answer, onError, requestTimeout }: InternalServerOptions,
): Promise<Server> {
  const isAllowed = 'token' in place ? bearerCheck(place.token, onError) : () => true;
  const answerTo = async (incoming: IncomingMessage): Promise<InternalAnswer> =>
    isAllowed(incoming) ? answer(incoming) : UNAUTHORIZED;
  const server = createServer(requestTimeout === undefined ? {} : { requestTimeout }, (incoming, outgoing) => {
    answerTo(incoming).then(
      (response) => send(outgoing, response),
      (error: unknown) => {
        onError(error);
        send(outgoing, FAILED);
      },
    );
  });
  await listen(server, 'socket' in place ? place.socket : place.listen);
  if ('socket' in place) await chmod(place.socket, 0o600);
  return server;
}

function bearerCheck(token: () => string, onError: (error: unknown) => void) {
  return ({ headers }: IncomingMessage): boolean => {
    try {
      return isSameSecret(headers.authorization ?? '', `Bearer ${token()}`);
    } catch (error) {
      onError(error);
      return false;
    }
  };
}

function send(outgoing: ServerResponse, { status, body }: InternalAnswer): void {
  // Without this, the server reads the rest of the body, which may be endless.
  if (status === 401) outgoing.setHeader('Connection', 'close');
  if (body === undefined) outgoing.writeHead(status).end();
  else outgoing.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
}

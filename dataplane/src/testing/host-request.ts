/** For tests: a request to a host name that this machine does not resolve, at a port on loopback. */
import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http';

export interface HostRequest {
  port: number | string;
  host: string;
  path?: string;
  method?: string;
  headers?: OutgoingHttpHeaders;
  body?: string | undefined;
}

export interface HostResponse {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
}

/** Rejects where the server changes the protocol. */
export function requestHost({ port, host, path = '/', method = 'GET', headers = {}, body }: HostRequest) {
  return new Promise<HostResponse>((resolve, reject) => {
    const options = { host: '127.0.0.1', port, path, method, headers: { host, ...headers }, agent: false };
    const outgoing = request(options, async (response) => {
      let text = '';
      for await (const chunk of response.setEncoding('utf8')) text += chunk;
      resolve({ status: response.statusCode as number, headers: response.headers, text });
    });
    outgoing
      .on('upgrade', (_, socket) => {
        socket.destroy();
        reject(new Error('the server changed the protocol'));
      })
      .on('error', reject)
      .end(body);
  });
}

/**
 * Sends requests to sites of projects on this machine. Browsers resolve every name below localhost, but Node does not.
 */
import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http';

export interface SiteResponse {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
}

/** `siteUrl` is the project's `project_url`. */
export function requestSite(siteUrl: string, path = '/', headers: OutgoingHttpHeaders = {}): Promise<SiteResponse> {
  const { port, host } = new URL(siteUrl);
  return new Promise((resolve, reject) => {
    const outgoing = request({ host: '127.0.0.1', port, path, headers: { ...headers, host }, agent: false });
    outgoing.on('response', async (response) => {
      let body = '';
      for await (const chunk of response.setEncoding('utf8')) body += chunk;
      resolve({ status: response.statusCode as number, headers: response.headers, body });
    });
    outgoing.on('error', reject).end();
  });
}

/**
 * Sends requests to sites of projects on this machine. Browsers resolve every name below localhost, but Node does not.
 */
import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http';

export interface SiteResponse {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
}

interface Sent {
  method?: 'GET' | 'POST';
  headers?: OutgoingHttpHeaders;
  body?: string;
}

/** `siteUrl` is the project's `project_url`. */
export const requestSite = (siteUrl: string, path = '/', headers: OutgoingHttpHeaders = {}): Promise<SiteResponse> =>
  sendToSite(siteUrl, path, { headers });

export function sendToSite(siteUrl: string, path: string, { method, headers, body }: Sent): Promise<SiteResponse> {
  const { port, host } = new URL(siteUrl);
  return new Promise((resolve, reject) => {
    const outgoing = request({ host: '127.0.0.1', port, path, method, headers: { ...headers, host }, agent: false });
    outgoing.on('response', async (response) => {
      let body = '';
      for await (const chunk of response.setEncoding('utf8')) body += chunk;
      resolve({ status: response.statusCode as number, headers: response.headers, body });
    });
    outgoing.on('error', reject).end(body);
  });
}

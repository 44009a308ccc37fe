/**
 * Parses `status.upstream` of an app, `host:port`. In: the text that the operator wrote. Out: host and port; undefined
 * if there is no text, or if it is not an address that a connection can be opened to.
 */
import { isIP } from 'node:net';
import type { AppUpstream } from './tenant.js';

/** `[2001:db8::7]:8080`, `198.18.0.3:8080` or `name.example:8080`. */
const HOST_AND_PORT = /^(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9.-]{1,253})):([1-9]\d{0,4})$/i;

const DNS_NAME = /^(?!-)[a-z0-9-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9-]{1,63}(?<!-))*\.?$/i;

export function parseAppUpstream(text: string | undefined): AppUpstream | undefined {
  const [, v6, name = '', digits] = HOST_AND_PORT.exec(text ?? '') ?? [];
  const port = Number(digits);
  if (!(port <= 65_535)) return undefined;
  if (v6 !== undefined) return isIP(v6) === 6 ? { host: v6, port } : undefined;
  return isIP(name) === 4 || isDnsName(name) ? { host: name, port } : undefined;
}

/** A name whose last label is a number would be an IPv4 address in an unusual form, such as `127.1`. */
const isDnsName = (name: string) => DNS_NAME.test(name) && !/(?:^|\.)(?:\d+|0x[0-9a-f]*)\.?$/i.test(name);

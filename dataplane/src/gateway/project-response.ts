/**
 * A response of the port for people. Once it is known to be a project's, every header that a service writes passes the
 * policy of its origin, whichever service writes it and however: `end`, `write` and `flushHeaders` of node:http all
 * come to `writeHead`, which sends the headers given to it and those of `setHeader` and `appendHeader`.
 */
import { type OutgoingHttpHeader, type OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { HeaderValue, OriginPolicy } from './origin-policy.js';

type Given = OutgoingHttpHeaders | OutgoingHttpHeader[] | undefined;

export class ProjectResponse extends ServerResponse {
  #policy: OriginPolicy | undefined;
  /** node:http passes the headers of `writeHead`, which have passed the policy, to `setHeader`. */
  #isWritingHead = false;

  /** Called once, before anything is written. */
  apply(policy: OriginPolicy): void {
    for (const [name, value] of policy.fixed) this.setHeader(name, value);
    this.#policy = policy;
  }

  override writeHead(status: number, reason?: string | Given, headers?: Given): this {
    const admitted = this.#admitted(typeof reason === 'string' ? headers : (reason ?? headers));
    this.#isWritingHead = true;
    try {
      return typeof reason === 'string' ? super.writeHead(status, reason, admitted) : super.writeHead(status, admitted);
    } finally {
      this.#isWritingHead = false;
    }
  }

  override setHeader(name: string, value: HeaderValue): this {
    const admitted = this.#isWritingHead ? value : this.#admittedValue(name, value);
    return admitted === undefined ? this : super.setHeader(name, admitted);
  }

  override appendHeader(name: string, value: string | readonly string[]): this {
    const admitted = this.#isWritingHead ? value : this.#admittedValue(name, value);
    return admitted === undefined ? this : super.appendHeader(name, admitted as string | readonly string[]);
  }

  #admittedValue(name: string, value: HeaderValue): HeaderValue | undefined {
    return this.#policy === undefined ? value : this.#policy.admit(name.toLowerCase(), value);
  }

  /** Copies the headers only if one of them changes. */
  #admitted(given: Given): OutgoingHttpHeaders | undefined {
    const headers = Array.isArray(given) ? byName(given) : given;
    const policy = this.#policy;
    if (policy === undefined || headers === undefined) return headers;
    let changed: OutgoingHttpHeaders | undefined;
    for (const name in headers) {
      const value = headers[name];
      if (value === undefined) continue;
      const admitted = policy.admit(name.toLowerCase(), value);
      if (admitted === value) continue;
      changed ??= { ...headers };
      if (admitted === undefined) delete changed[name];
      else changed[name] = admitted as OutgoingHttpHeader;
    }
    return changed ?? headers;
  }
}

/** node:http also takes names and values by turns, or pairs of them; a name may come again. */
function byName(list: readonly unknown[]): OutgoingHttpHeaders {
  const flat = list.flat() as string[];
  const headers: Record<string, string | string[]> = {};
  for (let at = 0; at + 1 < flat.length; at += 2) {
    const [name = '', value = ''] = flat.slice(at, at + 2);
    const before = headers[name];
    headers[name] = before === undefined ? value : [before, value].flat();
  }
  return headers;
}

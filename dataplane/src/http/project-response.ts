/**
 * Response of the public port. For a project's response, every header that a service writes passes the policy of its
 * origin. All ways of writing a response in node:http (`end`, `write`, `flushHeaders`) call `writeHead`, which sends
 * its own headers and those of `setHeader` and `appendHeader`.
 */
import { type OutgoingHttpHeader, type OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { HeaderValue, OriginPolicy } from './origin-policy.js';

type Given = OutgoingHttpHeaders | OutgoingHttpHeader[] | undefined;

export class ProjectResponse extends ServerResponse {
  #policy: OriginPolicy | undefined;
  /** Skips the policy while node:http passes the headers of `writeHead`, which have passed it, to `setHeader`. */
  #isWritingHead = false;

  /** Sets the policy once, before anything is written. */
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

  /** Applies the policy. Copies the headers only if one of them changes. */
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

/** Converts headers to an object. node:http also accepts a list of alternating names and values, or of pairs. */
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

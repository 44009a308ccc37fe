/** A case: a request that is sent to both sides. */
export type Service = 'rest' | 'auth' | 'storage';
export type Caller = 'nobody' | 'anon' | 'user' | 'service_role';

export interface Case {
  name: string;
  service: Service;
  method: string;
  /**
   * The path below the service's root. Path, headers and body may contain {{names}} of values from earlier responses.
   */
  path: string;
  headers: Record<string, string>;
  body: string | undefined;
  as: Caller;
  /** Members of the response for later requests, by their name in requests: `{ id: 'user.id|id' }`. */
  take: Record<string, string>;
}

export interface CaseOptions {
  /** Distinguishes cases with the same method and path. */
  note?: string;
  headers?: Record<string, string>;
  as?: Caller;
  take?: Record<string, string>;
}

/** Returns a function that makes cases of a service. Their default caller is `usual`. */
export function casesOf(service: Service, usual: Caller) {
  return (method: string, path: string, body?: unknown, options: CaseOptions = {}): Case => {
    const { note, headers = {}, as = usual, take = {} } = options;
    const isText = typeof body === 'string' || body === undefined;
    const shown = isText ? '' : ` ${JSON.stringify(body)}`;
    const who = as === usual ? '' : `, as ${as}`;
    return {
      name: `${method} ${path}${shown}${note ? ` (${note})` : ''}${who}`,
      service,
      method,
      path,
      headers: isText ? headers : { 'content-type': 'application/json', ...headers },
      body: isText ? body : JSON.stringify(body),
      as,
      take,
    };
  };
}

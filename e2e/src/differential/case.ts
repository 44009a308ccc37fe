/** A request that both sides are sent. */
export type Service = 'rest' | 'auth' | 'storage';
export type Caller = 'nobody' | 'anon' | 'user' | 'service_role';

export interface Case {
  name: string;
  service: Service;
  method: string;
  /** From the service's own root on; may hold {{what an earlier answer was taken for}}, as may headers and body. */
  path: string;
  headers: Record<string, string>;
  body: string | undefined;
  as: Caller;
  /** Members of the answer that later requests need, by the name that they use: `{ id: 'user.id|id' }`. */
  take: Record<string, string>;
}

export interface CaseOptions {
  /** Where method and path alone don't tell it from another. */
  note?: string;
  headers?: Record<string, string>;
  as?: Caller;
  take?: Record<string, string>;
}

/** A way to write the cases of a service: as its usual caller, unless they say otherwise. */
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

/** Negotiates the format of the response: plain JSON, or a Table. */
import { failure } from '../status.js';

export type Form = 'object' | 'table' | 'metadata';

const AVAILABLE = '406: Not Acceptable\n\nAvailable representations: application/json';

/** Returns the first media range of the Accept header that the server supports. */
export function acceptedForm(accept: string | undefined): Form {
  if (!accept || accept === 'application/json' || accept === '*/*') return 'object';
  for (const range of accept.split(',')) {
    const [type, ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    if (type !== 'application/json' && type !== '*/*' && type !== 'application/*') continue;
    const parameter = Object.fromEntries(parameters.map((part) => part.split('=')));
    if (!parameter.as) return 'object';
    if (parameter.g !== 'meta.k8s.io' || parameter.v !== 'v1') continue;
    if (parameter.as === 'table') return 'table';
    if (parameter.as === 'partialobjectmetadata' || parameter.as === 'partialobjectmetadatalist') return 'metadata';
  }
  throw failure(406, 'NotAcceptable', AVAILABLE, {});
}

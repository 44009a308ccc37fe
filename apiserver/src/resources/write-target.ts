import type { Resource } from './resource.js';

export interface WriteTarget {
  resource: Resource;
  namespace: string;
  subresource: '' | 'status' | 'finalize';
}

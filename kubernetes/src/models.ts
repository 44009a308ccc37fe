/** Types of all Kubernetes objects, for programs that write whole ones: charts. */
export type * from '@kubernetes/client-node';

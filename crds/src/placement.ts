/** Where a project's auth and REST services run: in the project's own pods, or in the shared data plane. */
export const PLACEMENTS = ['deployments', 'pooled'] as const;
export type Placement = (typeof PLACEMENTS)[number];

/** Where a project's auth and rest run: in pods of its own, or in the data plane that all share. */
export const PLACEMENTS = ['deployments', 'pooled'] as const;
export type Placement = (typeof PLACEMENTS)[number];

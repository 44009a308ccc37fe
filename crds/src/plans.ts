export const PLANS = ['free', 'starter', 'pro', 'team', 'enterprise'] as const;
export type Plan = (typeof PLANS)[number];

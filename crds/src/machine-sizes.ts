/**
 * The sizes of the machines of dedicated projects, by plan. They are nominal: no provider sells them everywhere, so a
 * machine may have more.
 */
import type { Plan } from './plans.js';

export const MACHINE_SIZES = {
  cpx11: { cores: 2, memoryGb: 2, diskGb: 40 },
  cpx21: { cores: 3, memoryGb: 4, diskGb: 80 },
  cpx31: { cores: 4, memoryGb: 8, diskGb: 160 },
  cpx41: { cores: 8, memoryGb: 16, diskGb: 240 },
} as const;
export type MachineSize = keyof typeof MACHINE_SIZES;

export const SIZE_OF_PLAN: Readonly<Record<Plan, MachineSize>> = {
  free: 'cpx11',
  starter: 'cpx11',
  pro: 'cpx21',
  team: 'cpx31',
  enterprise: 'cpx41',
};

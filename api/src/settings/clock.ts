import type { ApiSettings } from './settings.js';

/** Returns the clock of the settings, by default that of the system. */
export const clockOf = ({ now }: Pick<ApiSettings, 'now'>): (() => Date) => now ?? (() => new Date());

/** The setting for the number of concurrent builds of one machine. */
export const BUILDS_AT_ONCE_SETTING = 'SLIPWAY_BUILDS_AT_ONCE';
const DEFAULT = 2;

/** @throws Error that names the setting */
export function readBuildsAtOnce(text: string | undefined): number {
  if (!text) return DEFAULT;
  if (!/^[1-9]\d?$/.test(text)) {
    throw new Error(`${BUILDS_AT_ONCE_SETTING} is "${text}": it must be a number from 1 to 99`);
  }
  return Number(text);
}

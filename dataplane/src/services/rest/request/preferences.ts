/**
 * Parses the Prefer header. Out: the preferences, the applied ones, and the error PGRST122 for unknown ones under
 * handling=strict.
 */
import { invalidPreferences } from '../errors.js';

export interface Preferences {
  return: 'representation' | 'minimal' | 'headers-only' | undefined;
  count: 'exact' | 'planned' | 'estimated' | undefined;
  resolution: 'merge-duplicates' | 'ignore-duplicates' | undefined;
  missing: 'default' | 'null' | undefined;
  handling: 'strict' | 'lenient' | undefined;
  tx: 'commit' | 'rollback' | undefined;
  maxAffected: number | undefined;
  timezone: string | undefined;
}

export type Preference = keyof Preferences;

const CHOICES: Record<string, readonly string[]> = {
  return: ['representation', 'minimal', 'headers-only'],
  count: ['exact', 'planned', 'estimated'],
  resolution: ['merge-duplicates', 'ignore-duplicates'],
  missing: ['default', 'null'],
  handling: ['strict', 'lenient'],
  tx: ['commit', 'rollback'],
};

/** `timezones` are the names that Postgres knows; without them every time zone is rejected. */
export function parsePreferences(header: string, timezones?: ReadonlySet<string>): Preferences {
  const preferences: Record<string, string | number | undefined> = {};
  const invalid: string[] = [];
  for (const preference of header.split(',').map((part) => part.trim())) {
    if (preference === '') continue;
    const [name = '', value = ''] = preference.split('=').map((part) => part.trim());
    if (name === 'max-affected' && /^\d{1,9}$/.test(value)) preferences.maxAffected ??= Number(value);
    else if (name === 'timezone' && timezones?.has(value)) preferences.timezone ??= value;
    else if (Object.hasOwn(CHOICES, name) && CHOICES[name]?.includes(value)) preferences[name] ??= value;
    else invalid.push(preference);
  }
  if (preferences.handling === 'strict' && invalid.length > 0) throw invalidPreferences(invalid);
  return preferences as unknown as Preferences;
}

const ORDER = ['resolution', 'missing', 'return', 'count', 'tx', 'handling', 'timezone', 'maxAffected'] as const;

export function preferenceApplied(preferences: Preferences, applied: readonly Preference[]): string | undefined {
  const words = ORDER.filter((name) => applied.includes(name) && preferences[name] !== undefined).map(
    (name) => `${name === 'maxAffected' ? 'max-affected' : name}=${preferences[name]}`,
  );
  return words.length > 0 ? words.join(', ') : undefined;
}

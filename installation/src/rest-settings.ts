/**
 * Settings of REST that a project's owner stores in its database, with PostgREST's names; each is stored as
 * `pgrst.<name>`. The data plane obeys them, and the management API validates them.
 */
import type { ConfigProblem, Setting } from './auth-settings/config-reader.js';
import { integer, type Reader } from './auth-settings/values.js';

/** Schemas that are never exposed. */
const INTERNAL: ReadonlySet<string> = new Set(['pg_catalog', 'information_schema']);
const MAX_SCHEMAS = 100;

const unquoted = (name: string) => name.trim().replace(/^"(.*)"$/s, '$1');

const names: Reader<string[]> = (text) =>
  text
    .split(',')
    .map(unquoted)
    .filter((name) => name !== '');

const exposed: Reader<string[]> = (text) => {
  const schemas = names(text).filter((name) => !INTERNAL.has(name));
  if (schemas.length === 0) throw new Error('it must be a list of schemas, separated by commas');
  return schemas.slice(0, MAX_SCHEMAS);
};

/** Postgres has more texts for a boolean than other settings. */
const boolean: Reader<boolean> = Object.assign(
  (text: string) => {
    if (/^(true|t|on|yes|1)$/i.test(text)) return true;
    if (/^(false|f|off|no|0)$/i.test(text)) return false;
    throw new Error('it must be true or false');
  },
  { type: 'boolean' as const },
);

const choice =
  <T extends string>(...choices: readonly T[]): Reader<T> =>
  (text) => {
    const chosen = choices.find((each) => each === text);
    if (chosen === undefined) throw new Error(`it must be one of ${choices.join(', ')}`);
    return chosen;
  };

const routine: Reader<{ schema: string; name: string }> = (text) => {
  const [schema, name, more] = text.split('.').map(unquoted);
  if (!schema || more !== undefined) throw new Error('it must be a function such as api.check_request');
  return name ? { schema, name } : { schema: 'public', name: schema };
};

const READERS = {
  db_schemas: exposed,
  db_extra_search_path: names,
  db_aggregates_enabled: boolean,
  db_plan_enabled: boolean,
  db_max_rows: integer(0, 999_999_999),
  db_pre_request: routine,
  db_tx_end: choice('commit', 'commit-allow-override', 'rollback', 'rollback-allow-override'),
  openapi_mode: choice('follow-privileges', 'ignore-privileges', 'disabled'),
  client_error_verbosity: choice('verbose', 'minimal'),
} as const;

export type RestSetting = keyof typeof READERS;
export const REST_SETTINGS = Object.keys(READERS) as readonly RestSetting[];

type ValueOf<N extends RestSetting> = ReturnType<(typeof READERS)[N]>;

/** Returns undefined if the setting is absent or invalid. */
export function restSetting<N extends RestSetting>(
  name: N,
  texts: Partial<Record<RestSetting, string>>,
): ValueOf<N> | undefined {
  const text = texts[name];
  if (text === undefined) return undefined;
  try {
    return READERS[name](text) as ValueOf<N>;
  } catch {
    return undefined;
  }
}

/** Returns each setting with its type and value, and the unknown and invalid ones of `texts`. */
export function readRestSettings(texts: Readonly<Record<string, string>> = {}): {
  settings: Setting[];
  problems: ConfigProblem[];
} {
  const problems: ConfigProblem[] = [];
  const settings = REST_SETTINGS.map((key): Setting => {
    const reader: Reader<unknown> = READERS[key];
    const { type = 'string' } = reader;
    const setting: Setting = { key, type, isSecret: false, value: undefined };
    const text = texts[key];
    if (text === undefined) return setting;
    try {
      const value = reader(text);
      return { ...setting, value: type === 'string' ? text : (value as boolean | number) };
    } catch (error) {
      problems.push({ key, message: (error as Error).message });
      return setting;
    }
  });
  const unknown = Object.keys(texts).filter((key) => !Object.hasOwn(READERS, key));
  return { settings, problems: [...problems, ...unknown.map((key) => ({ key, message: 'is not a known setting' }))] };
}

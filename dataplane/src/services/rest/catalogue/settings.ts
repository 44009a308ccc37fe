/**
 * REST settings that a project's owner stores in the database: PostgREST's `pgrst.…`, of the login role or the
 * database. In: names and values. Out: settings; a malformed value counts as absent.
 */
import type { RestSetting } from '@slipway/installation';

export interface RestSettings {
  /** Exposed schemas; the first is the default. */
  schemas: readonly string[];
  /** Schemas of the search path after the exposed one. */
  extraSearchPath: readonly string[];
  aggregates: boolean;
  plan: boolean;
  maxRows: number | undefined;
  /** Function that runs before each request, with the caller's role. */
  preRequest: { schema: string; name: string } | undefined;
  transactionEnd: 'commit' | 'commit-allow-override' | 'rollback' | 'rollback-allow-override';
  openapi: 'follow-privileges' | 'ignore-privileges' | 'disabled';
  /** True if errors include details and hint. */
  verboseErrors: boolean;
}

export interface SettingsSource {
  /** Default exposed schemas; the first is the default schema. */
  schemas: readonly string[];
  /** Settings that apply unless the owner has set others. */
  given: Partial<Record<RestSetting, string>>;
  /** True if the owner's settings in the database apply. */
  fromDatabase: boolean;
}

/** Schemas that are never exposed. */
const INTERNAL: ReadonlySet<string> = new Set(['pg_catalog', 'information_schema']);
const MAX_SCHEMAS = 100;

export function restSettings(set: Partial<Record<RestSetting, string>>, schemas: readonly string[]): RestSettings {
  const requested = names(set.db_schemas).filter((name) => !INTERNAL.has(name));
  const maxRows = /^\d{1,9}$/.test(set.db_max_rows ?? '') ? Number(set.db_max_rows) : undefined;
  return {
    schemas: requested.length > 0 ? requested.slice(0, MAX_SCHEMAS) : schemas,
    extraSearchPath:
      set.db_extra_search_path === undefined ? ['public', 'extensions'] : names(set.db_extra_search_path),
    aggregates: isTrue(set.db_aggregates_enabled),
    plan: isTrue(set.db_plan_enabled),
    maxRows,
    preRequest: routine(set.db_pre_request),
    transactionEnd: choice(set.db_tx_end, ['commit', 'commit-allow-override', 'rollback', 'rollback-allow-override']),
    openapi: choice(set.openapi_mode, ['follow-privileges', 'ignore-privileges', 'disabled']),
    verboseErrors: set.client_error_verbosity !== 'minimal',
  };
}

const names = (list: string | undefined) =>
  (list ?? '')
    .split(',')
    .map((name) => name.trim().replace(/^"(.*)"$/s, '$1'))
    .filter((name) => name !== '');

const isTrue = (value: string | undefined) => /^(true|t|on|yes|1)$/i.test(value ?? '');

const choice = <T extends string>(value: string | undefined, choices: readonly [T, ...T[]]): T =>
  choices.find((each) => each === value) ?? choices[0];

function routine(value: string | undefined): RestSettings['preRequest'] {
  const [schema, name, more] = (value ?? '').split('.').map((part) => part.trim().replace(/^"(.*)"$/s, '$1'));
  if (!schema || more !== undefined) return undefined;
  return name ? { schema, name } : { schema: 'public', name: schema };
}

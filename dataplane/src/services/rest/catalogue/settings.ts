/**
 * REST settings that a project's owner stores in the database: PostgREST's `pgrst.…`, of the login role or the
 * database. In: names and values. Out: settings; a malformed value counts as absent.
 */
import { type RestSetting, restSetting } from '@slipway/installation';

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

export function restSettings(set: Partial<Record<RestSetting, string>>, schemas: readonly string[]): RestSettings {
  return {
    schemas: restSetting('db_schemas', set) ?? schemas,
    extraSearchPath: restSetting('db_extra_search_path', set) ?? ['public', 'extensions'],
    aggregates: restSetting('db_aggregates_enabled', set) ?? false,
    plan: restSetting('db_plan_enabled', set) ?? false,
    maxRows: restSetting('db_max_rows', set),
    preRequest: restSetting('db_pre_request', set),
    transactionEnd: restSetting('db_tx_end', set) ?? 'commit',
    openapi: restSetting('openapi_mode', set) ?? 'follow-privileges',
    verboseErrors: restSetting('client_error_verbosity', set) !== 'minimal',
  };
}

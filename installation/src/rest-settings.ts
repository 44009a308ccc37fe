/**
 * Settings of REST that a project's owner stores in its database, with PostgREST's names; each is stored as
 * `pgrst.<name>`.
 */
export const REST_SETTINGS = [
  'db_schemas',
  'db_extra_search_path',
  'db_aggregates_enabled',
  'db_plan_enabled',
  'db_max_rows',
  'db_pre_request',
  'db_tx_end',
  'openapi_mode',
  'client_error_verbosity',
] as const;

export type RestSetting = (typeof REST_SETTINGS)[number];

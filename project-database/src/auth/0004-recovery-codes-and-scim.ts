import { OWNERS } from '../owners.js';

/**
 * Tables that upstream added in summer 2026: recovery codes of second factors, and users from a company's directory
 * (SCIM).
 */
export const recoveryCodesAndScim = /* sql */ `
alter type auth.factor_type add value if not exists 'recovery_code';
alter table auth.one_time_tokens add column expires_at timestamptz;

create table auth.mfa_recovery_code_sets (
  id uuid not null constraint mfa_recovery_code_sets_pkey primary key,
  user_id uuid not null constraint mfa_recovery_code_sets_user_id_key unique
    constraint mfa_recovery_code_sets_user_id_fkey references auth.users (id) on delete cascade,
  mfa_factor_id uuid not null constraint mfa_recovery_code_sets_mfa_factor_id_key unique
    constraint mfa_recovery_code_sets_mfa_factor_id_fkey references auth.mfa_factors (id) on delete cascade,
  failed_verification_count integer not null default 0
    constraint mfa_recovery_code_sets_failed_verification_count_check check (failed_verification_count >= 0),
  verification_locked_until timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create table auth.mfa_recovery_codes (
  id uuid not null constraint mfa_recovery_codes_pkey primary key,
  mfa_recovery_code_set_id uuid not null constraint mfa_recovery_codes_mfa_recovery_code_set_id_fkey
    references auth.mfa_recovery_code_sets (id) on delete cascade,
  code_hash text not null,
  consumed_at timestamptz,
  created_at timestamptz not null default now()
);
create index mfa_recovery_codes_set_id_idx on auth.mfa_recovery_codes (mfa_recovery_code_set_id);

create table auth.scim_tokens (
  id uuid not null constraint scim_tokens_pkey primary key,
  sso_provider_id uuid not null
    constraint scim_tokens_sso_provider_id_fkey references auth.sso_providers (id) on delete cascade,
  token_hash text not null constraint scim_tokens_token_hash_check check (token_hash ~ '^[0-9a-f]{64}$'),
  prefix text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  constraint scim_tokens_expires_at_future check (expires_at is null or expires_at > created_at),
  constraint scim_tokens_revoked_after_created check (revoked_at is null or revoked_at >= created_at)
);
create index scim_tokens_expires_at_idx on auth.scim_tokens (expires_at);
create index scim_tokens_revoked_at_idx on auth.scim_tokens (revoked_at);
create index scim_tokens_sso_provider_id_idx on auth.scim_tokens (sso_provider_id);
create unique index scim_tokens_token_hash_key on auth.scim_tokens (token_hash);

create table auth.scim_users (
  id uuid not null constraint scim_users_pkey primary key,
  sso_provider_id uuid not null
    constraint scim_users_sso_provider_id_fkey references auth.sso_providers (id) on delete cascade,
  user_id uuid constraint scim_users_user_id_fkey references auth.users (id) on delete set null,
  resource jsonb not null,
  user_name text not null generated always as (lower(resource ->> 'userName')) stored,
  external_id text generated always as (resource ->> 'externalId') stored,
  active boolean not null generated always as (coalesce((resource ->> 'active')::boolean, true)) stored,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
create index scim_users_created_at_idx on auth.scim_users (sso_provider_id, created_at, id) where deleted_at is null;
create index scim_users_deleted_at_idx on auth.scim_users (deleted_at);
create unique index scim_users_external_id_key on auth.scim_users (sso_provider_id, external_id)
  where external_id is not null and deleted_at is null;
create index scim_users_id_idx on auth.scim_users (sso_provider_id, id) where deleted_at is null;
create index scim_users_sso_provider_id_idx on auth.scim_users (sso_provider_id);
create index scim_users_updated_at_idx on auth.scim_users (sso_provider_id, updated_at, id) where deleted_at is null;
create index scim_users_user_id_idx on auth.scim_users (user_id);
create index scim_users_user_name_idx on auth.scim_users (sso_provider_id, user_name collate "C", id)
  where deleted_at is null;
create unique index scim_users_user_name_key on auth.scim_users (sso_provider_id, user_name) where deleted_at is null;

grant select, insert, update, delete, references, trigger
  on auth.mfa_recovery_code_sets, auth.mfa_recovery_codes, auth.scim_tokens, auth.scim_users\
 to ${OWNERS} with grant option;
`;

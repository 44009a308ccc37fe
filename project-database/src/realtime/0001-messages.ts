/**
 * The messages that the database sends to channels. Policies of channels are checked on this table too. It has
 * upstream's columns and `txid`, by which the data plane reads each committed message once. It is a plain table: rows
 * are deleted after three days by the next insert, so no job has to make partitions.
 */
export const messages = /* sql */ `
create table realtime.messages (
  topic text not null,
  extension text not null,
  payload jsonb,
  event text,
  private boolean default false,
  updated_at timestamp without time zone not null default (clock_timestamp() at time zone 'utc'),
  inserted_at timestamp without time zone not null default (clock_timestamp() at time zone 'utc'),
  id uuid not null default gen_random_uuid() constraint messages_pkey primary key,
  txid xid8 not null default pg_current_xact_id()
);
create index messages_txid_index on realtime.messages (txid);
create index messages_inserted_at_index on realtime.messages (inserted_at);
create index messages_replay_index on realtime.messages (topic, inserted_at desc)\
 where extension = 'broadcast' and private;
alter table realtime.messages enable row level security;
grant select, insert, update on realtime.messages to anon, authenticated, service_role;
grant delete on realtime.messages to service_role;

create function realtime.messages_inserted() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from realtime.messages where id in (
    select id from realtime.messages
    where inserted_at < (now() at time zone 'utc') - interval '3 days'
    order by inserted_at limit 20
    for update skip locked
  );
  perform pg_notify('realtime', 'messages');
  return null;
end $$;
revoke all on function realtime.messages_inserted() from public;
create trigger messages_inserted after insert on realtime.messages
  for each statement execute function realtime.messages_inserted();
`;

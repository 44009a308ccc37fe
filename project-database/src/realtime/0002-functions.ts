/** Functions for a moving app's policies and triggers: the requested topic, and broadcasts from the database. */
export const functions = /* sql */ `
create function realtime.topic() returns text language sql stable as $$
  select nullif(current_setting('realtime.topic', true), '')::text
$$;
comment on function realtime.topic() is 'The topic of the channel that is asked for.';

create function realtime.send(payload jsonb, event text, topic text, private boolean default true) returns void
language plpgsql as $$
declare
  message_id uuid := gen_random_uuid();
begin
  perform set_config('realtime.topic', topic, true);
  insert into realtime.messages (id, payload, event, topic, private, extension)
  values (
    message_id,
    case when payload ? 'id' then payload else payload || jsonb_build_object('id', message_id) end,
    event, topic, private, 'broadcast'
  );
exception when others then
  -- What could not be sent must not undo the change that it was to tell of.
  raise warning 'ErrorSendingBroadcastMessage: %', sqlerrm;
end $$;
comment on function realtime.send(jsonb, text, text, boolean) is\
 'Sends a broadcast to the topic when the transaction commits.';

create function realtime.broadcast_changes(
  topic_name text, event_name text, operation text, table_name text, table_schema text, new record, old record,
  level text default 'ROW'
) returns void language plpgsql as $$
begin
  if level = 'STATEMENT' then
    raise exception 'function can only be triggered for each row, not for each statement';
  end if;
  if operation not in ('INSERT', 'UPDATE', 'DELETE') then
    raise exception 'Unexpected operation type: %', operation;
  end if;
  perform realtime.send(
    jsonb_build_object(
      'old_record', old, 'record', new, 'operation', operation, 'table', table_name, 'schema', table_schema
    ),
    event_name, topic_name
  );
exception when others then
  raise exception 'Failed to process the row: %', sqlerrm;
end $$;
comment on function realtime.broadcast_changes(text, text, text, text, text, record, record, text)
  is 'Called by a row trigger: sends the change as a private broadcast.';

grant execute on all functions in schema realtime to anon, authenticated, service_role;
revoke execute on function realtime.messages_inserted() from anon, authenticated, service_role;
`;

import { OWNERS } from '../owners.js';

/** Functions for a moving app's policies, and the listing of a folder. Each runs with the rights of its caller. */
export const functions = /* sql */ `
create function storage.foldername(name text) returns text[] language sql immutable as $$
  select (string_to_array(name, '/'))[1 : array_length(string_to_array(name, '/'), 1) - 1]
$$;

create function storage.filename(name text) returns text language sql immutable as $$
  select (string_to_array(name, '/'))[array_length(string_to_array(name, '/'), 1)]
$$;

create function storage.extension(name text) returns text language sql immutable as $$
  select reverse(split_part(reverse(storage.filename(name)), '.', 1))
$$;

create function storage.operation() returns text language sql stable as $$
  select current_setting('storage.operation', true)
$$;
comment on function storage.operation() is\
 'What the caller asks of the storage service, such as storage.object.upload.';

create function storage.allow_only_operation(expected_operation text) returns boolean language sql stable as $$
  select coalesce(storage.operation() in (expected_operation, 'storage.' || expected_operation), false)
$$;

create function storage.allow_any_operation(expected_operations text[]) returns boolean language sql stable as $$
  select coalesce(bool_or(storage.allow_only_operation(expected)), false) from unnest(expected_operations) as expected
$$;

create function storage.get_size_by_bucket() returns table (size bigint, bucket_id text) language sql stable as $$
  select sum((metadata ->> 'size')::bigint)::bigint, objects.bucket_id from storage.objects group by objects.bucket_id
$$;

create function storage.can_insert_object(bucketid text, name text, owner uuid, metadata jsonb) returns void
language plpgsql as $$
begin
  insert into storage.objects (bucket_id, name, owner, metadata) values (bucketid, name, owner, metadata);
  raise sqlstate 'PT200' using message = 'ROLLBACK', detail = 'rollback successful insert';
end $$;

create function storage.escape_like(value text) returns text language sql immutable as $$
  select regexp_replace(value, '([\\\\%_])', '\\\\\\1', 'g')
$$;

-- One level below a prefix: folders first, then objects. What isn't a known column or order sorts by name, ascending.
create function storage.search(
  prefix text, bucketname text, limits integer default 100, levels integer default 1, offsets integer default 0,
  search text default '', sortcolumn text default 'name', sortorder text default 'asc'
) returns table (
  name text, id uuid, updated_at timestamptz, created_at timestamptz, last_accessed_at timestamptz, metadata jsonb
) language plpgsql stable as $$
declare
  direction text := case when lower(sortorder) = 'desc' then 'desc' else 'asc' end;
  sorted text := case
    when sortcolumn in ('updated_at', 'created_at', 'last_accessed_at') then format('o.%I', sortcolumn)
    else 'o.path_tokens[$1]'
  end;
  found text := storage.escape_like(prefix) || '%';
  wanted text := storage.escape_like(coalesce(search, '')) || '%';
begin
  return query execute format(
    'with level as (
       select o.* from storage.objects o
       where o.bucket_id = $2 and o.name like %1$L and o.path_tokens[$1] ilike $3
     ), folders as (
       select o.path_tokens[$1] as folder from level o
       where array_length(o.path_tokens, 1) > $1
       group by 1 order by 1 %3$s
     )
     (select folder, null::uuid, null::timestamptz, null::timestamptz, null::timestamptz, null::jsonb from folders)
     union all
     (select o.path_tokens[$1], o.id, o.updated_at, o.created_at, o.last_accessed_at, o.metadata from level o
      where array_length(o.path_tokens, 1) = $1
      order by %2$s %3$s, o.name %3$s)
     limit $4 offset $5',
    found, sorted, direction
  ) using levels, bucketname, wanted, limits, offsets;
end $$;

grant execute on all functions in schema storage to anon, authenticated, service_role, ${OWNERS};
`;

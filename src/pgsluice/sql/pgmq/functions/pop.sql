create or replace function pgmq.pop(queue_name text, qty integer default 1)
returns setof pgmq.message_record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'select * from pgmq.%I($1, null, $2, null, true)', pgmq._reader(queue_name)
    )
    using clock_timestamp(), qty;
end;
$$;

comment on function pgmq.pop(text, integer) is
    'Read up to qty visible messages, lowest msg_id first, and delete them immediately: at most once, if the caller then fails.';
revoke execute on function pgmq.pop(text, integer) from public;
grant execute on function pgmq.pop(text, integer) to sluice_admin, sluice_reader;

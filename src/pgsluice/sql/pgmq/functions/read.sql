create or replace function pgmq.read(queue_name text, vt integer, qty integer, conditional jsonb default '{}')
returns setof pgmq.message_record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'select * from pgmq.%I($1, $2, $3, $4, false)', pgmq._reader(queue_name)
    )
    using clock_timestamp(), make_interval(secs => vt), qty, conditional;
end;
$$;

comment on function pgmq.read(text, integer, integer, jsonb) is
    'Read up to qty visible messages, lowest msg_id first, and hide them for vt seconds; conditional is a containment filter on message.';
revoke execute on function pgmq.read(text, integer, integer, jsonb) from public;
grant execute on function pgmq.read(text, integer, integer, jsonb) to sluice_admin, sluice_reader;

create or replace function sluice.get_messages(queue_name text, msg_ids bigint[])
returns setof sluice.stored_message
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute (
        select string_agg(format('select %s from %s and m.msg_id = any ($1)', p.columns, p.source), ' union all ') || ' order by 1'
        from sluice._stored_places(queue_name, 'all'::text, true) as p
    )
    using msg_ids;
end;
$$;

comment on function sluice.get_messages(text, bigint[]) is
    'Return messages by msg_id from queue, archive and dead letters, lowest first, without reading them; state is visible, in flight, retrying, delayed, archived or dead.';
revoke execute on function sluice.get_messages(text, bigint[]) from public;
grant execute on function sluice.get_messages(text, bigint[]) to sluice_admin, sluice_reader;

/*
 * Returns the next page of a queue or an archive, which starts after the last msg_id of the previous page.
 *
 * Calls: sluice._stored_columns, sluice._relation_table, sluice._filter_sql. Reads: the queue's or the archive's table,
 * in the order of its primary key. Without a filter it reads only the rows it returns; with one, also those it skips.
 */
create or replace function sluice.browse(
    queue_name text,
    relation text default 'queue',
    after_msg_id bigint default null,
    qty integer default 100,
    conditional jsonb default '{}',
    conditional_headers jsonb default '{}',
    since timestamptz default null,
    until timestamptz default null
)
returns setof sluice.stored_message
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- By msg_id alone: times repeat, and a row keeps its msg_id when it is moved.
    return query execute format(
        'select %1$s
         from pgmq.%2$I as m
         where ($5 is null or m.msg_id > $5)
           and %3$s
         order by m.msg_id
         limit $6',
        sluice._stored_columns(relation),
        sluice._relation_table(queue_name, relation),
        sluice._filter_sql(case relation when 'archive' then 'archived_at' else 'enqueued_at' end)
    )
    using conditional, conditional_headers, since, until, after_msg_id, qty;
end;
$$;

comment on function sluice.browse(text, text, bigint, integer, jsonb, jsonb, timestamptz, timestamptz) is
    'Return messages of a queue (relation queue) or its archive (archive) after a msg_id, lowest first, without reading them. Time: enqueued_at or archived_at.';
revoke execute on function sluice.browse(text, text, bigint, integer, jsonb, jsonb, timestamptz, timestamptz) from public;
grant execute on function sluice.browse(text, text, bigint, integer, jsonb, jsonb, timestamptz, timestamptz) to sluice_admin, sluice_reader;

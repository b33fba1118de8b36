/*
 * Returns the next page of messages, which starts after the last msg_id of the previous page.
 *
 * Calls: sluice._stored_places, sluice._filter_sql. Reads: the tables of the places, in the order of msg_id. Without a filter it
 * reads only the rows it returns; with one, also those it skips.
 */
create or replace function sluice.browse(
    queue_name text,
    relation text default 'queue',
    after_msg_id bigint default null,
    qty integer default 100,
    conditional jsonb default '{}',
    conditional_headers jsonb default '{}',
    since timestamptz default null,
    until timestamptz default null,
    matching text default null
)
returns setof sluice.stored_message
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- By msg_id alone: times repeat, and a row keeps its msg_id when it is moved. Dead letters of a queue that was dropped
    -- and created again repeat ids: a page does not end between two.
    v_page constant text := 'order by msg_id fetch first (coalesce($7, 9223372036854775807)) rows with ties';
begin
    return query execute (
        select string_agg(
            format('(select %s from %s and ($6 is null or m.msg_id > $6) and %s %s)', p.columns, p.source, f.condition, v_page),
            ' union all '
        ) || case when relation = 'all' then ' ' || v_page else '' end
        from sluice._stored_places(queue_name, relation, true) as p
        cross join lateral sluice._filter_sql(
            case relation when 'archive' then 'archived_at' else 'enqueued_at' end, '$5'::text, false
        ) as f (condition)
    )
    using conditional, conditional_headers, since, until, matching, after_msg_id, qty::bigint;
end;
$$;

comment on function sluice.browse(text, text, bigint, integer, jsonb, jsonb, timestamptz, timestamptz, text) is
    'Return messages of a queue (relation queue), its archive (archive), its dead letters (dead letters) or all of them (all) after a msg_id, lowest first, without reading them. Time: archived_at of the archive, otherwise enqueued_at. Matching: the msg_id or key, or a text that occurs in the payload or headers in any case; a JSON object or array is contained in them.';
revoke execute on function sluice.browse(text, text, bigint, integer, jsonb, jsonb, timestamptz, timestamptz, text) from public;
grant execute on function sluice.browse(text, text, bigint, integer, jsonb, jsonb, timestamptz, timestamptz, text) to sluice_admin, sluice_reader;

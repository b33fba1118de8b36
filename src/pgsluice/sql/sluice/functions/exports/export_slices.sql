/*
 * Like queue_slices, for the unverified messages of an export. All queries find the same rows only in one snapshot.
 *
 * Calls: sluice.export_backlog, sluice._message_columns_sql.
 */
create or replace function sluice.export_slices(
    queue_name text, export_name text, slice_count integer, columns text[]
)
returns table (slice integer, query text)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_table text := format('pgmq.%I', pgmq.format_table_name(queue_name, 'a'));
    v_unverified text := sluice._unverified_sql((sluice._require_export(queue_name, export_name)).export_id);
    v_columns text := sluice._message_columns_sql(columns, false);
begin
    return query
        with page as (
            select b.*, sum(b.messages) over (order by b.first_msg_id) as messages_until, sum(b.messages) over () as messages_all
            from sluice.export_backlog(queue_name, export_name) as b
        ),
        part as (
            select ceil(p.messages_until * greatest(slice_count, 1) / p.messages_all)::integer as number,
                min(p.first_msg_id) as first_msg_id,
                max(p.last_msg_id) as last_msg_id
            from page as p
            group by 1
        )
        select part.number,
            format(
                'select %s from %s as m where m.msg_id >= %s and m.msg_id <= %s and %s',
                v_columns, v_table, part.first_msg_id, part.last_msg_id, v_unverified
            )
        from part
        order by part.number;
end;
$$;

comment on function sluice.export_slices(text, text, integer, text[]) is
    'Return queries of similar size that together read each archived message that an export has not verified once.';
revoke execute on function sluice.export_slices(text, text, integer, text[]) from public;
grant execute on function sluice.export_slices(text, text, integer, text[]) to sluice_admin, sluice_reader;

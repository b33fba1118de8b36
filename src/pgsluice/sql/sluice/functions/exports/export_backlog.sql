/*
 * Reads only what an export still has to verify: an archive may hold verified messages for years.
 *
 * Reads: the archive, by its index on msg_id if there is one; sluice.exported_page.
 */
create or replace function sluice.export_backlog(queue_name text, export_name text)
returns table (first_msg_id bigint, last_msg_id bigint, messages bigint)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'select min(m.msg_id), max(m.msg_id), count(*)
         from pgmq.%I as m
         where %s
         group by m.msg_id / 256
         order by 1',
        pgmq.format_table_name(queue_name, 'a'),
        sluice._unverified_sql((sluice._require_export(queue_name, export_name)).export_id)
    );
end;
$$;

comment on function sluice.export_backlog(text, text) is
    'Return the numbers of archived messages that an export has not verified, with their range of msg_ids, lowest first: a row per page with such messages.';
revoke execute on function sluice.export_backlog(text, text) from public;
grant execute on function sluice.export_backlog(text, text) to sluice_admin, sluice_reader;

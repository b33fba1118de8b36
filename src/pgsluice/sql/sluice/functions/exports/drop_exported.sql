/*
 * Deletes archived messages that every export of the queue has verified. It reads the pages with such messages, not the
 * whole archive, which may be full of messages that are not copied yet.
 *
 * archived_from of a page is a lower bound, so that a page is not read before a message in it is old enough. It is updated
 * for each page read, and lowered when more of it is verified.
 *
 * Locks: the exports; the messages, skipping those that another session has locked.
 * Writes: the archive, sluice.exported_page.
 */
create or replace function sluice.drop_exported(
    queue_name text, rows_max bigint default 10000, archived_before timestamptz default 'infinity'
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name constant text := sluice._registered_name(queue_name);
    v_archive constant text := pgmq.format_table_name(queue_name, 'a');
    v_pages_max constant integer := 64;
    v_export_ids bigint[];
    v_page bigint := -9223372036854775808;
    v_pages bigint[];
    v_verified int8multirange;
    v_deleted bigint;
    v_deleted_all bigint := 0;
begin
    if rows_max is null or rows_max < 1 then
        raise exception using
            errcode = '22023',
            message = format('rows_max must be 1 or more: %s', rows_max),
            hint = 'pass the maximum number of messages to drop, and repeat the call for more';
    end if;
    perform from sluice.export as e where e.queue_name = v_queue_name order by e.export_id for no key update;
    v_export_ids := array(select e.export_id from sluice.export as e where e.queue_name = v_queue_name);
    loop
        exit when v_deleted_all >= rows_max;
        select array_agg(of_all.page), range_agg(of_all.msg_ids), max(of_all.page)
        into v_pages, v_verified, v_page
        from (
            select p.page, range_intersect_agg(p.msg_ids) as msg_ids
            from sluice.exported_page as p
            where p.export_id = any (v_export_ids)
              and p.page in (
                  select due.page
                  from sluice.exported_page as due
                  where due.export_id = any (v_export_ids) and due.archived_from < archived_before and due.page > v_page
              )
            group by p.page
            having count(*) = cardinality(v_export_ids)
            order by p.page
            limit v_pages_max
        ) as of_all;
        exit when v_pages is null;

        -- By ranges, and as an array, because a join would scan the whole table. The time is repeated so that only old
        -- partitions of an archive are read.
        execute format(
            'delete from pgmq.%1$I as archived
             where archived.archived_at < $2
               and archived.msg_id between lower($1) and upper($1)
               and archived.msg_id = any (array(
                   select m.msg_id
                   from unnest($1) as run (msg_ids)
                   join pgmq.%1$I as m on m.msg_id >= lower(run.msg_ids) and m.msg_id < upper(run.msg_ids)
                   where m.archived_at < $2
                   limit $3
                   for update of m skip locked
               ))',
            v_archive
        )
        using v_verified, archived_before, rows_max - v_deleted_all;
        get diagnostics v_deleted = row_count;
        v_deleted_all := v_deleted_all + v_deleted;

        -- Also removes the marks of manually deleted messages.
        execute format(
            'update sluice.exported_page as p
             set msg_ids = p.msg_ids - ($1 - coalesce(here.msg_ids, ''{}'')),
                 archived_from = coalesce(here.archived_from, ''infinity'')
             from unnest($2) as looked (page)
             left join (
                 select m.msg_id / 256 as page,
                     range_agg(int8range(m.msg_id, m.msg_id, ''[]'')) as msg_ids,
                     min(m.archived_at) as archived_from
                 from unnest($1) as run (msg_ids)
                 join pgmq.%I as m on m.msg_id >= lower(run.msg_ids) and m.msg_id < upper(run.msg_ids)
                 group by 1
             ) as here on here.page = looked.page
             where p.export_id = any ($3) and p.page = looked.page',
            v_archive
        )
        using v_verified, v_pages, v_export_ids;
        delete from sluice.exported_page as p
        where p.export_id = any (v_export_ids) and p.page = any (v_pages) and isempty(p.msg_ids);
    end loop;
    return v_deleted_all;
end;
$$;

comment on function sluice.drop_exported(text, bigint, timestamptz) is
    'Drop archived messages that every export of the queue has verified in its lake, regardless of the retention, at most rows_max, and only those archived before a time; returns their number, 0 if none is left.';
revoke execute on function sluice.drop_exported(text, bigint, timestamptz) from public;
grant execute on function sluice.drop_exported(text, bigint, timestamptz) to sluice_admin;

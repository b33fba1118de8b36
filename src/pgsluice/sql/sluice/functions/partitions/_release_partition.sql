/*
 * Runs before a partition of an archive is dropped: checks that every export has verified all of it, and removes its marks.
 * An unverified partition is detected without a lock, at its first unverified message. Otherwise it is read again under a
 * lock that blocks inserts, because a long transaction may still insert rows.
 *
 * Locks, if there are exports: these, and the partition against writers, until the end of the transaction.
 */
create or replace function sluice._release_partition(queue_name text, leaf regclass)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_export_ids bigint[];
    v_export_id bigint;
    v_is_unverified boolean;
    v_pages bigint[];
    v_msg_ids int8multirange[];
begin
    perform from sluice.export as e where e.queue_name = _release_partition.queue_name order by e.export_id for no key update;
    v_export_ids := array(select e.export_id from sluice.export as e where e.queue_name = _release_partition.queue_name);
    if v_export_ids = '{}' then
        return true;
    end if;
    foreach v_export_id in array v_export_ids
    loop
        execute format('select exists (select from %s as m where %s)', leaf, sluice._unverified_sql(v_export_id))
        into v_is_unverified;
        if v_is_unverified then
            return false;
        end if;
    end loop;

    execute format('lock table %s in share mode', leaf);
    execute format(
        'select coalesce(array_agg(p.page), ''{}''), coalesce(array_agg(p.msg_ids), ''{}'')
         from (
             select m.msg_id / 256 as page, range_agg(int8range(m.msg_id, m.msg_id, ''[]'')) as msg_ids
             from %s as m
             group by 1
         ) as p',
        leaf
    )
    into v_pages, v_msg_ids;
    perform
    from unnest(v_pages, v_msg_ids) as here (page, msg_ids)
    cross join unnest(v_export_ids) as wanted (export_id)
    where not exists (
        select
        from sluice.exported_page as p
        where p.export_id = wanted.export_id and p.page = here.page and p.msg_ids @> here.msg_ids
    );
    if found then
        return false;
    end if;
    update sluice.exported_page as p
    set msg_ids = p.msg_ids - here.msg_ids
    from unnest(v_pages, v_msg_ids) as here (page, msg_ids)
    where p.export_id = any (v_export_ids) and p.page = here.page;
    delete from sluice.exported_page as p
    where p.export_id = any (v_export_ids) and p.page = any (v_pages) and isempty(p.msg_ids);
    return true;
end;
$$;

comment on function sluice._release_partition(text, regclass) is
    'True if a partition of an archive may be dropped because every export has verified all of it; removes its marks.';
revoke execute on function sluice._release_partition(text, regclass) from public;
grant execute on function sluice._release_partition(text, regclass) to sluice_admin;

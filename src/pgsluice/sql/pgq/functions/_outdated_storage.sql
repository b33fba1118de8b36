-- Rows of event tables and tick tables are appended and removed by TRUNCATE: they need no fillfactor and no vacuum.
-- Event tables have no key, so their replica identity is full. A table with the right settings is not locked.
create or replace function pgq._outdated_storage(i_queue_ids integer[], out queue_id integer, out statement text)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select r.queue_id, concat_ws(
        '; ',
        case when is_outdated.settings then format(
            'alter table pgq.%I set (fillfactor = 100, autovacuum_enabled = off, toast.autovacuum_enabled = off)', c.relname
        ) end,
        case when is_outdated.identity then format('alter table pgq.%I replica identity full', c.relname) end
    )
    from pgq._log_relations(i_queue_ids) as r
    join pg_class as c on c.oid = r.relation
    left join pg_class as toast on toast.oid = c.reltoastrelid
    cross join lateral (
        select
            r.kind in ('event segment', 'tick segment') and not (
                coalesce(c.reloptions, '{}') @> array['autovacuum_enabled=off']
                and array_to_string(c.reloptions, ' ') !~ 'fillfactor=(?!100)'
                and (toast.oid is null or coalesce(toast.reloptions, '{}') @> array['autovacuum_enabled=off'])
            ),
            r.kind in ('events', 'event segment') and c.relreplident <> 'f'
    ) as is_outdated (settings, identity)
    where is_outdated.settings or is_outdated.identity
    order by r.queue_id, length(c.relname), c.relname;
$$;

comment on function pgq._outdated_storage(integer[]) is
    'List the tables of event logs whose storage differs from this release, with the statements that correct it.';
revoke execute on function pgq._outdated_storage(integer[]) from public;
grant execute on function pgq._outdated_storage(integer[]) to pgq_admin, sluice_admin;

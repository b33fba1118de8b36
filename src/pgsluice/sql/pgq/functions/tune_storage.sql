-- Rows of event tables and tick tables are appended, and go by TRUNCATE: there is nothing to leave room for or to vacuum. Event
-- tables have no key, so the whole row is their replica identity. A table that is as it should be is not locked.
create or replace function pgq.tune_storage(i_queue_name text)
returns integer
language plpgsql
strict
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_table record;
begin
    select q.queue_id into v_queue_id from pgq.queue as q where q.queue_name = i_queue_name;
    if not found then
        return 0;
    end if;
    for v_table in
        select c.relname,
            c.relname ~ '_[0-9]+_' and not (
                coalesce(c.reloptions, '{}') @> array['autovacuum_enabled=off']
                and array_to_string(c.reloptions, ' ') !~ 'fillfactor=(?!100)'
                and (toast.oid is null or coalesce(toast.reloptions, '{}') @> array['autovacuum_enabled=off'])
            ) as is_untuned,
            c.relname like 'event%' and c.relreplident <> 'f' as is_unidentified
        from pg_class as c
        left join pg_class as toast on toast.oid = c.reltoastrelid
        where c.relnamespace = 'pgq'::regnamespace
          and c.relkind = 'r'
          and c.relname = any (
              array[format('event_%s', v_queue_id)]
              || array(
                  select format('%s_%s_%s', kind.name, v_queue_id, s.number)
                  from pgq._segments(v_queue_id) as s (number)
                  cross join (values ('event'), ('tick')) as kind (name)
              )
          )
        order by length(c.relname), c.relname
    loop
        if v_table.is_untuned then
            execute format(
                'alter table pgq.%I set (fillfactor = 100, autovacuum_enabled = off, toast.autovacuum_enabled = off)',
                v_table.relname
            );
        end if;
        if v_table.is_unidentified then
            execute format('alter table pgq.%I replica identity full', v_table.relname);
        end if;
    end loop;
    return 1;
end;
$$;

comment on function pgq.tune_storage(text) is
    'Keep autovacuum away from a log''s event and tick tables, and make their rows publishable; 1, or 0 when there is no such log.';
revoke execute on function pgq.tune_storage(text) from public;
grant execute on function pgq.tune_storage(text) to pgq_admin, sluice_admin;

-- Rows of event tables and tick tables are appended, and go by TRUNCATE: there is nothing to leave room for or to vacuum.
create or replace function pgq.tune_storage(i_queue_name text)
returns integer
language plpgsql
strict
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_table name;
begin
    select q.queue_id into v_queue_id from pgq.queue as q where q.queue_name = i_queue_name;
    if not found then
        return 0;
    end if;
    for v_table in
        select c.relname
        from pg_class as c
        where c.relnamespace = 'pgq'::regnamespace
          and c.relkind = 'r'
          and c.relname ~ format('^(event|tick)_%s_[0-9]+$', v_queue_id)
        order by c.relname
    loop
        execute format(
            'alter table pgq.%I set (fillfactor = 100, autovacuum_enabled = off, toast.autovacuum_enabled = off)', v_table
        );
    end loop;
    return 1;
end;
$$;

comment on function pgq.tune_storage(text) is
    'Keep autovacuum away from a log''s event and tick tables; 1, or 0 when there is no such log.';
revoke execute on function pgq.tune_storage(text) from public;
grant execute on function pgq.tune_storage(text) to pgq_admin, sluice_admin;

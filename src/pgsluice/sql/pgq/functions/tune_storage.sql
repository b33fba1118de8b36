create or replace function pgq.tune_storage(i_queue_name text)
returns integer
language plpgsql
strict
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_statement text;
begin
    select q.queue_id into v_queue_id from pgq.queue as q where q.queue_name = i_queue_name;
    if not found then
        return 0;
    end if;
    for v_statement in select t.statement from pgq._outdated_storage(array[v_queue_id]) as t
    loop
        execute v_statement;
    end loop;
    return 1;
end;
$$;

comment on function pgq.tune_storage(text) is
    'Disable autovacuum on a log''s event and tick tables, and set their replica identity; returns 1, or 0 if there is no such log.';
revoke execute on function pgq.tune_storage(text) from public;
grant execute on function pgq.tune_storage(text) to pgq_admin, sluice_admin;

-- With the rights of their owner: see pgq._outdated_functions.
create or replace function pgq._create_log_functions(i_queue_id integer)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_statement text;
begin
    for v_statement in select f.statement from pgq._outdated_functions(array[i_queue_id]) as f
    loop
        execute v_statement;
    end loop;
end;
$$;

comment on function pgq._create_log_functions(integer) is
    'Create the functions that read one log''s ticks and events, or replace them by those of this release.';
revoke execute on function pgq._create_log_functions(integer) from public;
grant execute on function pgq._create_log_functions(integer) to pgq_admin, sluice_admin;

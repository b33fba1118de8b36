-- Runs with the rights of the functions' owner: see pgmq._outdated_readers.
create or replace function pgmq._create_reader(queue_name text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off -- the settings of functions are compared as text
as $$
declare
    v_statement text;
begin
    for v_statement in select r.statement from pgmq._outdated_readers(array[queue_name]) as r
    loop
        execute v_statement;
    end loop;
end;
$$;

comment on function pgmq._create_reader(text) is
    'Create the functions of one queue, or replace them with those of this release.';
revoke execute on function pgmq._create_reader(text) from public;
grant execute on function pgmq._create_reader(text) to sluice_admin;

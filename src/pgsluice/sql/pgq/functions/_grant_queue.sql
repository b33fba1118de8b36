-- A rotation changes the same rows of pg_class by TRUNCATE, and the later of the two would fail, "tuple concurrently updated". So
-- the log's row is locked: a rotation that has it is waited for, and the next one skips the log.
create or replace function pgq._grant_queue(i_queue_id integer)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_statement text;
begin
    perform from pgq.queue as q where q.queue_id = i_queue_id for no key update;
    for v_statement in select g.statement from pgq._outdated_grants(array[i_queue_id]) as g
    loop
        execute v_statement;
    end loop;
end;
$$;

comment on function pgq._grant_queue(integer) is
    'Give the roles that exist their rights on a log''s tables and sequences.';
revoke execute on function pgq._grant_queue(integer) from public;
grant execute on function pgq._grant_queue(integer) to pgq_admin, sluice_admin;

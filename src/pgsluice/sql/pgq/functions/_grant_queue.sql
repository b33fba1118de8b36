-- TRUNCATE in a rotation updates the same rows of pg_class, and the later of the two would fail with "tuple
-- concurrently updated". So the log's row is locked: this waits for a running rotation, and the next rotation skips the
-- log.
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
    'Grant the existing roles their rights on a log''s tables and sequences.';
revoke execute on function pgq._grant_queue(integer) from public;
grant execute on function pgq._grant_queue(integer) to pgq_admin, sluice_admin;

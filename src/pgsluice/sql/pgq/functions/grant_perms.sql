-- TRUNCATE in a rotation updates the same rows of pg_class, and the later of the two would fail with "tuple
-- concurrently updated". So the log's row is locked: this waits for a running rotation, and the next rotation skips the
-- log.
create or replace function pgq.grant_perms(x_queue_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_statement text;
begin
    select q.queue_id into v_queue_id from pgq.queue as q where q.queue_name = x_queue_name for no key update;
    if not found then
        raise exception using
            errcode = 'PQ001',
            table = coalesce(x_queue_name, 'NULL'),
            message = 'Queue not found',
            detail = format('There is no event log %L.', x_queue_name),
            hint = 'pgq.get_queue_info() lists the existing ones';
    end if;
    for v_statement in select g.statement from pgq._outdated_grants(array[v_queue_id]) as g
    loop
        execute v_statement;
    end loop;
    return 1;
end;
$$;

comment on function pgq.grant_perms(text) is
    'Grant the roles of this release, and all grantees of pgq.event_template, their rights on a log''s tables; returns 1.';
revoke execute on function pgq.grant_perms(text) from public;
grant execute on function pgq.grant_perms(text) to pgq_admin, sluice_admin;

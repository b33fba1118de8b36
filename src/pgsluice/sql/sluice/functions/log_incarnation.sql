create or replace function sluice.log_incarnation(queue_name text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_incarnation text;
begin
    -- Ticks count from 1 in each log, and snapshots mean something in one cluster only: a log that was
    -- dropped and made again gets a new id, a dump restored elsewhere a new system identifier.
    select format('%s/%s', c.system_identifier, q.queue_id)
    into v_incarnation
    from pgq.queue as q
    cross join pg_control_system() as c
    where q.queue_name = log_incarnation.queue_name;
    if not found then
        raise exception using
            errcode = 'PQ001',
            message = format('event log %L does not exist', queue_name),
            hint = format('create it with pgq.create_queue(%L)', queue_name);
    end if;
    return v_incarnation;
end;
$$;

comment on function sluice.log_incarnation(text) is
    'What tells this event log from another of the same name, here or in another cluster.';
revoke execute on function sluice.log_incarnation(text) from public;
grant execute on function sluice.log_incarnation(text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

create or replace function sluice.list_queue_states(
    after_name text default '', qty integer default 1000,
    out queue_name text, out length bigint, out ready bigint, out in_flight bigint, out retrying bigint, out delayed bigint,
    out oldest_ready_s double precision, out sent bigint, out finished bigint, out dead bigint
)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name text;
begin
    for v_queue_name in
        select m.queue_name
        from pgmq.meta as m
        where m.queue_name > after_name
        order by m.queue_name
        limit qty
    loop
        -- A queue that is being dropped, or is broken, must not hide the others.
        begin
            return query select v_queue_name, s.* from sluice._queue_state(v_queue_name) as s;
            -- The rollback releases the locks: one transaction cannot hold those of thousands of queues.
            raise sqlstate 'RL000';
        exception
            when sqlstate 'RL000' then
                null;
            when insufficient_resources then
                raise; -- the other queues would fail, too
            when others then
                raise warning 'queue % skipped: %', v_queue_name, sqlerrm using errcode = sqlstate;
        end;
    end loop;
end;
$$;

comment on function sluice.list_queue_states(text, integer) is
    'Return the figures of queues by name, at most qty after after_name: length, ready, in flight, waiting for a retry, delayed, age of the oldest ready message since it became ready, ids sent, messages that left the queue, and dead letters. Lengths above 5,000 are estimates; dead letters are counted up to 10,000.';
revoke execute on function sluice.list_queue_states(text, integer) from public;
grant execute on function sluice.list_queue_states(text, integer) to sluice_admin, sluice_reader, sluice_monitor;

create or replace function pgmq.metrics_all()
returns setof pgmq.metrics_result
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name text;
begin
    for v_queue_name in select m.queue_name from pgmq.meta as m order by m.queue_name
    loop
        -- A queue that is being dropped, or is broken, must not hide the others.
        begin
            return query select * from pgmq.metrics(v_queue_name);
            -- The rollback releases the locks: one transaction cannot hold those of thousands of queues.
            raise sqlstate 'RL000';
        exception
            when sqlstate 'RL000' then
                null;
            when undefined_table then
                raise warning 'queue % skipped: it has no table', v_queue_name;
            when insufficient_resources then
                raise; -- the other queues would fail, too
            when others then
                raise warning 'queue % skipped: %', v_queue_name, sqlerrm using errcode = sqlstate;
        end;
    end loop;
end;
$$;

comment on function pgmq.metrics_all() is 'Return the metrics of all queues, by name.';
revoke execute on function pgmq.metrics_all() from public;
grant execute on function pgmq.metrics_all() to sluice_admin, sluice_reader, sluice_monitor;

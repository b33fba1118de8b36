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
        -- A queue dropped at this moment, or broken by hand, must not hide the others.
        begin
            return query select * from pgmq.metrics(v_queue_name);
            -- The rollback gives the locks back: a transaction could not hold those of thousands.
            raise sqlstate 'RL000';
        exception
            when sqlstate 'RL000' then
                null;
            when undefined_table then
                raise warning 'queue % has no table and is left out', v_queue_name;
            when insufficient_resources then
                raise; -- the other queues would fail, too
            when others then
                raise warning 'queue % is left out: %', v_queue_name, sqlerrm using errcode = sqlstate;
        end;
    end loop;
end;
$$;

comment on function pgmq.metrics_all() is 'The metrics of every queue, by name.';
revoke execute on function pgmq.metrics_all() from public;
grant execute on function pgmq.metrics_all() to sluice_admin, sluice_reader, sluice_monitor;

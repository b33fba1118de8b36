create or replace function pgmq.create_fifo_indexes_all()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name text;
begin
    for v_queue_name in select m.queue_name from pgmq.meta as m order by m.queue_name
    loop
        -- A queue that is being dropped, or is broken, must not block the others.
        begin
            perform pgmq.create_fifo_index(v_queue_name);
        exception
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

comment on function pgmq.create_fifo_indexes_all() is 'Call create_fifo_index for every queue, by name.';
revoke execute on function pgmq.create_fifo_indexes_all() from public;
grant execute on function pgmq.create_fifo_indexes_all() to sluice_admin;

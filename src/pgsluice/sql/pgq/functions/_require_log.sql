create or replace function pgq._require_log(i_queue_name text)
returns pgq.queue
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue;
begin
    select q.* into v_queue from pgq.queue as q where q.queue_name = i_queue_name;
    if not found then
        raise exception using
            errcode = 'PQ001',
            table = coalesce(i_queue_name, 'NULL'),
            message = format('event log %L does not exist', i_queue_name),
            hint = format('create it with pgq.create_queue(%L)', i_queue_name);
    end if;
    return v_queue;
end;
$$;

comment on function pgq._require_log(text) is
    'Return the row of a log by its name; raise an error if it does not exist.';
revoke execute on function pgq._require_log(text) from public;
grant execute on function pgq._require_log(text) to pgq_admin, pgq_reader, pgq_writer, sluice_admin, sluice_monitor, sluice_reader, sluice_writer;

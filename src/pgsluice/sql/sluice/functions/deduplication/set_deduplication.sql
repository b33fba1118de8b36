-- A new window applies to keys sent from now on; existing keys keep their expiry.
--
-- Reads: pgmq.meta. Writes: sluice.deduplication.
create or replace function sluice.set_deduplication(queue_name text, deduplication_window interval)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_table text := pgmq.format_table_name(queue_name, 'q');
    v_registered text;
begin
    select m.queue_name
    into v_registered
    from pgmq.meta as m
    where lower('q_' || m.queue_name) = v_table
    order by m.queue_name = set_deduplication.queue_name desc
    limit 1;
    if not found then
        raise exception using
            errcode = 'undefined_table',
            message = format('queue %L does not exist', queue_name),
            hint = format('create it with pgmq.create(%L)', queue_name);
    end if;

    if deduplication_window is null then
        delete from sluice.deduplication as d where d.queue_name = v_registered;
        return;
    end if;
    if deduplication_window <= interval '0' then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('deduplication window of queue %L is not positive: %s', queue_name, deduplication_window),
            hint = 'give an interval like 5 minutes, or null to forget all keys';
    end if;
    insert into sluice.deduplication as d (queue_name, deduplication_window)
    values (v_registered, set_deduplication.deduplication_window)
    on conflict on constraint deduplication_pkey do update set deduplication_window = excluded.deduplication_window;
end;
$$;

comment on function sluice.set_deduplication(text, interval) is
    'Set the deduplication window of a queue, counted from the send; null forgets all keys.';
revoke execute on function sluice.set_deduplication(text, interval) from public;
grant execute on function sluice.set_deduplication(text, interval) to sluice_admin;

-- Checks whether a log accepts events and where they go. Producers call this with every batch, and with a single event
-- only if the log is closed, has a limit or does not exist.
--
-- The events of a transaction are counted in a transaction-local setting, which a rollback to a savepoint restores.
-- Counting the rows would be exact, but a transaction of n events would cost n * n. Since every role may change a
-- setting, the rows are counted now and then: the lower the setting, the more often, so that each event costs about ten
-- index entries. A session that manipulates its setting exceeds the limit by about a tenth on average.
create or replace function pgq._admit_events(i_queue_name text, i_events bigint)
returns pgq.queue
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue;
    v_checks constant double precision := 10;
    v_counter text;
    v_counted text;
    v_events bigint := 0;
begin
    if i_queue_name is null then
        raise exception using
            errcode = '22004',
            message = 'Queue name must not be NULL',
            hint = 'pass the name of the event log';
    end if;
    select q.* into v_queue from pgq.queue as q where q.queue_name = i_queue_name;
    if not found then
        raise exception using
            errcode = 'PQ001',
            table = coalesce(i_queue_name, 'NULL'),
            message = 'No such queue',
            detail = format('There is no event log %L.', i_queue_name),
            hint = format('create it with pgq.create_queue(%L)', i_queue_name);
    end if;
    if v_queue.queue_disable_insert and current_setting('session_replication_role') <> 'replica' then
        raise exception using
            errcode = 'PQ004',
            message = 'Insert into queue disallowed',
            detail = format('The event log %L is closed for events.', i_queue_name),
            hint = 'set queue_disable_insert to false in pgq.queue';
    end if;
    if v_queue.queue_per_tx_limit is not null then
        v_counter := format('sluice.events_in_transaction_%s', v_queue.queue_id);
        v_counted := current_setting(v_counter, true);
        if v_counted ~ '^[0-9]{1,18}$' then
            v_events := v_counted::bigint;
        end if;
        if random() * (v_events + 1) < v_checks then
            v_events := greatest(v_events, pgq._count_own_events(v_queue.queue_id, v_queue.queue_per_tx_limit + 1::bigint));
        end if;
        v_events := v_events + i_events;
        if v_events > v_queue.queue_per_tx_limit then
            raise exception using
                errcode = 'PQ004',
                message = format('Queue ''%s'' allows max %s events from one TX', i_queue_name, v_queue.queue_per_tx_limit),
                detail = format('This transaction would have inserted %s.', v_events),
                hint = 'commit after fewer events, or raise queue_per_tx_limit in pgq.queue; null: no limit';
        end if;
        perform set_config(v_counter, v_events::text, true);
    end if;
    return v_queue;
end;
$$;

comment on function pgq._admit_events(text, bigint) is
    'Return the row of a log if it accepts this number of further events from this transaction; else raise an error.';
revoke execute on function pgq._admit_events(text, bigint) from public;
grant execute on function pgq._admit_events(text, bigint) to pgq_admin, sluice_admin;

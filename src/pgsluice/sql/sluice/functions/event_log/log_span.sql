-- The guaranteed content of a log: the events after its oldest tick. Reading a tick locks its segment until the end of the
-- transaction, and while one segment is locked, none after it is truncated: the result is still valid when the events are
-- read.
--
-- Security definer: a reader may read a consumer's position, but not the ledgers.
create or replace function sluice.log_span(
    queue_name text, consumer_name text default null,
    out relation regclass, out from_tick bigint, out from_snapshot pg_snapshot, out to_tick bigint, out to_snapshot pg_snapshot
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_position bigint;
    v_tick pgq.tick;
begin
    v_queue_id := (pgq._require_log(queue_name)).queue_id;
    relation := format('pgq.event_%s', v_queue_id)::regclass;
    v_tick := pgq._tick_after(v_queue_id, 0::bigint);
    from_tick := v_tick.tick_id;
    from_snapshot := v_tick.tick_snapshot;

    if consumer_name is null then
        v_tick := pgq._last_tick(v_queue_id);
    else
        select s.pos_last_tick
        into v_position
        from pgq.standing as s
        join pgq.consumer as c on c.co_id = s.sub_consumer
        where s.sub_queue = v_queue_id
          and c.co_name = consumer_name;
        if not found then
            raise exception using
                errcode = 'PQ002',
                message = format('consumer %L is not registered on event log %L', consumer_name, queue_name),
                hint = 'see sluice.list_consumers for those that are';
        end if;
        v_tick := pgq._find_tick(v_queue_id, v_position);
    end if;
    to_tick := v_tick.tick_id;
    to_snapshot := v_tick.tick_snapshot;
end;
$$;

comment on function sluice.log_span(text, text) is
    'Return a log''s table, its oldest tick, and its newest or that of a consumer, with their snapshots; no segment is truncated before the transaction ends.';
revoke execute on function sluice.log_span(text, text) from public;
grant execute on function sluice.log_span(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

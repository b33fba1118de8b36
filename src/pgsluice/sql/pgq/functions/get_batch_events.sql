-- JIT costs more than it saves here, and the planner would choose it for a large batch.
create or replace function pgq.get_batch_events(
    x_batch_id bigint,
    out ev_id bigint, out ev_time timestamptz, out ev_txid bigint, out ev_retry integer,
    out ev_type text, out ev_data text,
    out ev_extra1 text, out ev_extra2 text, out ev_extra3 text, out ev_extra4 text
)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue_id integer;
    v_owner integer;
    v_after pg_snapshot;
    v_upto pg_snapshot;
    v_numbers bigint;
    v_is_empty boolean;
    v_few constant integer := 500;
    v_events pgq.event_template[];
begin
    -- As in pgq.finish_batch, one ledger after the other: the plans are cached, and the first one usually has the batch.
    -- Not as a join of moves on the batch and on the subscriber: its plan reads all moves of the consumer.
    select s.sub_queue, s.sub_id, p.pos_last_snapshot, p.pos_next_snapshot, coalesce(p.pos_next_seq - p.pos_last_seq, 0)
    into v_queue_id, v_owner, v_after, v_upto, v_numbers
    from pgq.subscriber as s
    cross join lateral (
        select m.* from pgq.position_0 as m where m.pos_subscriber = s.sub_key order by m.pos_move desc limit 1
    ) as p
    where s.sub_key = (select m.pos_subscriber from pgq.position_0 as m where m.pos_batch = x_batch_id limit 1)
      and s.sub_ledger = 0
      and p.pos_batch = x_batch_id;
    if not found then
        select s.sub_queue, s.sub_id, p.pos_last_snapshot, p.pos_next_snapshot, coalesce(p.pos_next_seq - p.pos_last_seq, 0)
        into v_queue_id, v_owner, v_after, v_upto, v_numbers
        from pgq.subscriber as s
        cross join lateral (
            select m.* from pgq.position_1 as m where m.pos_subscriber = s.sub_key order by m.pos_move desc limit 1
        ) as p
        where s.sub_key = (select m.pos_subscriber from pgq.position_1 as m where m.pos_batch = x_batch_id limit 1)
          and s.sub_ledger = 1
          and p.pos_batch = x_batch_id;
    end if;
    if not found then
        raise exception using
            errcode = 'PQ003',
            message = 'batch not found',
            detail = format('The batch id is %s.', x_batch_id),
            hint = 'open a batch with pgq.next_batch(); a finished one cannot be read again';
    end if;

    -- Most batches of a quiet log are empty: no number was given to an event between their ticks. The log's own function
    -- then finds whether earlier numbers were committed.
    if v_numbers <= 0 then
        execute format('select not pgq.%I($1, $2)', format('event_%s_any', v_queue_id))
        using v_after, v_upto
        into v_is_empty;
        if v_is_empty then
            return;
        end if;
    end if;
    -- Few events, unless a late transaction has many: they come from the log's own function, whose plan is cached. The query
    -- below is planned for each batch, over all tables of the log, which takes longer than to read some hundred events.
    if v_numbers <= v_few then
        execute format(
            'select array(select event from pgq.%I($1, $2, -9223372036854775808, 9223372036854775807, $3, $4) as event)',
            format('event_%s_outside', v_queue_id)
        )
        using v_after, v_upto, v_owner, v_few + 1
        into v_events;
        if cardinality(v_events) <= v_few then
            return query
                select event.ev_id, event.ev_time, event.ev_txid::text::bigint, event.ev_retry, event.ev_type, event.ev_data,
                    event.ev_extra1, event.ev_extra2, event.ev_extra3, event.ev_extra4
                from unnest(v_events) as event;
            return;
        end if;
    end if;
    return query execute pgq._batch_sql(
        v_queue_id, v_owner, v_after, v_upto,
        '{ev_id,ev_time,ev_txid,ev_retry,ev_type,ev_data,ev_extra1,ev_extra2,ev_extra3,ev_extra4}'::text[], null::bigint
    );
end;
$$;

comment on function pgq.get_batch_events(bigint) is
    'Return the events of an open batch, by ev_id.';
revoke execute on function pgq.get_batch_events(bigint) from public;
grant execute on function pgq.get_batch_events(bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

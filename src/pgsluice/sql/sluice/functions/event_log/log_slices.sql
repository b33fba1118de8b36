-- The events between two positions of a log as queries that can run in parallel. The queries contain the snapshots as
-- literals, so they return the same rows at any time, as long as the log keeps the events.
--
-- Calls: pgq._events_between_sql, which explains the condition. Reads: pgq.queue and the log's ticks.
create or replace function sluice.log_slices(
    log_name text,
    after pg_snapshot,
    upto pg_snapshot,
    slice_count integer,
    slice_events_min bigint,
    columns text[]
)
returns table (slice integer, query text)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_columns text := pgq._event_columns_sql(columns);
    v_count bigint := slice_count;
begin
    v_queue_id := (pgq._require_log(log_name)).queue_id;
    if not sluice.log_keeps(log_name, after) then
        raise exception using
            errcode = 'PQ004',
            message = format('event log %L no longer keeps what comes after snapshot %s', log_name, after),
            detail = 'The events after it may be gone.',
            hint = 'set failOnDataLoss to false to go on from the oldest tick that is kept';
    end if;
    if v_count > 1 and slice_events_min is not null then
        v_count := 1 + sluice.log_count(log_name, after, upto, (v_count - 1) * slice_events_min) / slice_events_min;
    end if;
    v_count := greatest(1, least(
        v_count, pg_snapshot_xmax(upto)::text::bigint - pg_snapshot_xmax(after)::text::bigint
    ));
    return query
        select s.number::integer,
            -- Events with an owner are redeliveries for one consumer, and were in the log before.
            format(
                'select %s from (%s) as event where event.ev_owner is null',
                v_columns,
                pgq._events_between_sql(v_queue_id, after, upto, s.number::integer, v_count::integer)
            )
        from generate_series(1, v_count) as s (number)
        order by s.number;
end;
$$;

comment on function sluice.log_slices(text, pg_snapshot, pg_snapshot, integer, bigint, text[]) is
    'Return queries that together read each event that upto sees and after does not once, with the same result at any time.';
revoke execute on function sluice.log_slices(text, pg_snapshot, pg_snapshot, integer, bigint, text[]) from public;
grant execute on function sluice.log_slices(text, pg_snapshot, pg_snapshot, integer, bigint, text[]) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

-- The snapshot of the caller's statement is held while it polls: see read_with_poll.
create or replace function pgmq.read_grouped_head_with_poll(
    queue_name text, vt integer, qty integer, max_poll_seconds integer default 5, poll_interval_ms integer default 100
)
returns setof pgmq.message_record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_deadline constant timestamptz := pgmq._poll_deadline(max_poll_seconds);
    v_pause interval := make_interval(secs => greatest(coalesce(poll_interval_ms, 100), 1) / 1000.0);
begin
    perform pgmq.format_table_name(queue_name, 'q'); -- raises PGMQ's errors, even if nothing is read
    -- As in PGMQ, the deadline is checked before the first read: with 0 seconds nothing is ever returned.
    while clock_timestamp() < v_deadline
    loop
        return query select * from pgmq.read_grouped_head(queue_name, vt, qty);
        exit when found;
        perform pg_sleep_for(least(v_pause, v_deadline - clock_timestamp()));
    end loop;
end;
$$;

comment on function pgmq.read_grouped_head_with_poll(text, integer, integer, integer, integer) is
    'Like read_grouped_head, but poll every poll_interval_ms until messages are returned or max_poll_seconds, or 90 % of statement_timeout, have passed; with 0 seconds nothing is returned.';
revoke execute on function pgmq.read_grouped_head_with_poll(text, integer, integer, integer, integer) from public;
grant execute on function pgmq.read_grouped_head_with_poll(text, integer, integer, integer, integer)
    to sluice_admin, sluice_reader;

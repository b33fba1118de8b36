-- Calls: sluice._registered_name, sluice._require_limits, sluice._store_limits. Writes: sluice.queue_limits, sluice.parked_key.
create or replace function sluice.set_queue_limits(
    queue_name text,
    fleet_concurrency integer default null,
    key_concurrency integer default null,
    rate integer default null,
    rate_interval interval default '1 second',
    when_waiting text default null,
    priority_weights integer[] default null
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limits sluice.queue_limits;
begin
    v_limits.queue_name := sluice._registered_name(queue_name);
    v_limits.queue_table := pgmq.format_table_name(queue_name, 'q');
    v_limits.fleet_concurrency := fleet_concurrency;
    v_limits.key_concurrency := key_concurrency;
    v_limits.rate := rate;
    v_limits.rate_interval := case when rate is not null then rate_interval end;
    v_limits.when_waiting := when_waiting;
    v_limits.priority_weights := priority_weights;
    perform sluice._require_limits(v_limits);

    perform pgmq.acquire_queue_lock(queue_name);
    perform sluice._store_limits(v_limits);
    perform sluice._note_action(
        'set_queue_limits'::text, v_limits.queue_name::text,
        to_jsonb(v_limits) - array['queue_name', 'queue_table', 'limits_id'],
        null::bigint, null::text
    );
end;
$$;

comment on function sluice.set_queue_limits(text, integer, integer, integer, interval, text, integer[]) is
    'Replace the limits, key order and priorities of a queue; null: not limited. sql/sluice/README.md explains them.';
revoke execute on function sluice.set_queue_limits(text, integer, integer, integer, interval, text, integer[]) from public;
grant execute on function sluice.set_queue_limits(text, integer, integer, integer, interval, text, integer[]) to sluice_admin;

-- Called by QueueSource for every claim: without limits it costs a lookup in a small table more than pgmq.read.
create or replace function sluice.claim_messages(queue_name text, vt integer, qty integer, worker text default null)
returns setof pgmq.message_record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text := pgmq._reader(queue_name);
    v_limits_id integer;
    v_is_paused boolean;
begin
    select
        case
            when num_nonnulls(s.fleet_concurrency, s.key_concurrency, s.rate, s.when_waiting, s.priority_weights) > 0
                then s.limits_id
        end,
        s.paused_at is not null
    into v_limits_id, v_is_paused
    from sluice.queue_settings as s
    where s.queue_table = v_queue;
    if v_is_paused then
        return;
    elsif v_limits_id is not null then
        return query select * from sluice._claim_limited(v_limits_id, v_queue, vt, qty);
    else
        return query execute format('select * from pgmq.%I($1, $2, $3, null, false)', v_queue)
            using clock_timestamp(), make_interval(secs => vt), qty;
    end if;
end;
$$;

comment on function sluice.claim_messages(text, integer, integer, text) is
    'Claim up to qty visible messages, lowest msg_id first, and hide them for vt seconds, within the limits of the queue and in their order; none of a paused queue; worker names the claimer and has no effect.';
revoke execute on function sluice.claim_messages(text, integer, integer, text) from public;
grant execute on function sluice.claim_messages(text, integer, integer, text) to sluice_admin, sluice_reader;

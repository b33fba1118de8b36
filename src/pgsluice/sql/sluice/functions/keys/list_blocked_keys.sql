-- State as of the last claim: later acknowledgements are read by the next one. A key is user data: not for monitoring roles.
create or replace function sluice.list_blocked_keys(
    queue_name text, group_name text,
    out key text, out since timestamptz, out reason text, out waiting bigint, out claim_id bigint, out ev_id bigint, out due_at timestamptz
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_group sluice.share_group := sluice._require_group(queue_name, group_name);
    v_shift interval := (sluice._last_claim(v_group.group_id)).clock_shift;
begin
    -- The ledgers must not be truncated between the snapshot of the next statement and its reads.
    lock table sluice.key_turn, sluice.waiting_event in access share mode;
    return query
        select t.key, t.since, 'claimed', t.waiting + cardinality(t.returned), t.claim_id, null::bigint, null::timestamptz
        from sluice._waiting_turns(v_group.group_id) as t
        where t.claim_id is not null
        union all
        select t.key, t.since, 'retrying', t.waiting + cardinality(t.returned) - 1, null, w.ev_id, t.due_at - v_shift
        from sluice._waiting_turns(v_group.group_id) as t
        join sluice.waiting_event as w
            on w.group_id = t.group_id and not w.is_left and w.lane = t.key and w.is_returned and w.waiting_id = t.returned[1]
        where t.claim_id is null and t.due_at - v_shift > clock_timestamp()
        union all
        select d.key, min(d.dead_at), 'parked', count(*) - 1, null, (array_agg(d.msg_id order by d.place))[1], null
        from sluice.dead_letter_event as d
        where d.queue_name = list_blocked_keys.queue_name
          and d.consumer_name = list_blocked_keys.group_name
          and d.reason = 'parked'
          and d.key is not null
        group by d.key
        order by 2, 1;
end;
$$;

comment on function sluice.list_blocked_keys(text, text) is
    'Return the keys of a share group with waiting events, longest wait first: claimed, retrying until due_at, or parked; with the number of events waiting behind it.';
revoke execute on function sluice.list_blocked_keys(text, text) from public;
grant execute on function sluice.list_blocked_keys(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

-- As sluice._standing_tick: events that the oldest tick, or a consumer, does not see are kept.
-- Security definer: positions are not readable by every role.
create or replace function sluice.log_keeps(log_name text, after pg_snapshot)
returns boolean
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
begin
    v_queue_id := (pgq._require_log(log_name)).queue_id;
    return coalesce(sluice._covers(after, (pgq._tick_after(v_queue_id, 0::bigint)).tick_snapshot), false) or exists (
        select
        from pgq.standing as s
        where s.sub_queue = v_queue_id
          and s.pos_lost is null
          and sluice._covers(after, s.pos_last_snapshot)
    );
end;
$$;

comment on function sluice.log_keeps(text, pg_snapshot) is
    'True if a log still has every event that this snapshot does not see.';
revoke execute on function sluice.log_keeps(text, pg_snapshot) from public;
grant execute on function sluice.log_keeps(text, pg_snapshot) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

-- A key is parked only by its parked events: redriving or purging them frees the key.
create or replace function sluice._parked_keys(i_group sluice.share_group, i_keys text[])
returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_log_name text;
begin
    if i_group.when_waiting <> 'park' then
        return '{}';
    end if;
    v_log_name := (select q.queue_name from pgq.queue as q where q.queue_id = i_group.queue_id);
    return array(
        select k.key
        from unnest(i_keys) as k (key)
        where exists (
            select
            from sluice.dead_letter_event as d
            where d.queue_name = v_log_name
              and d.consumer_name = i_group.group_name
              and d.key = k.key
              and d.reason = 'parked'
        )
    );
end;
$$;

comment on function sluice._parked_keys(sluice.share_group, text[]) is
    'Return the given keys that are parked.';
revoke execute on function sluice._parked_keys(sluice.share_group, text[]) from public;
grant execute on function sluice._parked_keys(sluice.share_group, text[]) to pgq_admin, sluice_admin;

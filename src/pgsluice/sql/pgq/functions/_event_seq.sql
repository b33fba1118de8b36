create or replace function pgq._event_seq(i_queue_id integer)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_position bigint;
begin
    -- A sequence starts at 1 with is_called false; otherwise the first event would not count.
    execute format(
        'select case when ids.is_called then ids.last_value else ids.last_value - 1 end from pgq.%I as ids',
        format('event_%s_id_seq', i_queue_id)
    )
    into v_position;
    return v_position;
end;
$$;

comment on function pgq._event_seq(integer) is
    'Return how many event ids a log has given out, including uncommitted and rolled back ones; 0 on a new log.';
revoke execute on function pgq._event_seq(integer) from public;
grant execute on function pgq._event_seq(integer) to pgq_admin, sluice_admin;

create or replace function sluice._owner_of(queue_name text, consumer_name text, out owner integer, out is_group boolean)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    select s.sub_id, s.sub_is_group
    into owner, is_group
    from pgq.subscriber as s
    join pgq.queue as q on q.queue_id = s.sub_queue
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where q.queue_name = _owner_of.queue_name and c.co_name = _owner_of.consumer_name;
    if not found then
        perform pgq._require_log(queue_name);
        raise exception using
            errcode = 'SG001',
            message = format('event log %L has no share group or consumer %L', queue_name, consumer_name),
            hint = 'create or register it again, or redrive its dead letters into a queue';
    end if;
end;
$$;

comment on function sluice._owner_of(text, text) is
    'Return the ev_owner of events that only this share group or consumer receives; raise an error if there is none.';
revoke execute on function sluice._owner_of(text, text) from public;
grant execute on function sluice._owner_of(text, text) to pgq_admin, sluice_admin;

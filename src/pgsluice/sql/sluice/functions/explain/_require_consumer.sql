create or replace function sluice._require_consumer(i_log pgq.queue, i_consumer_name text)
returns pgq.standing
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_standing pgq.standing;
begin
    select s.*
    into v_standing
    from pgq.standing as s
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where s.sub_queue = i_log.queue_id and c.co_name = i_consumer_name;
    if not found then
        raise exception using
            errcode = 'PQ002',
            message = format('consumer %L is not registered on event log %L', i_consumer_name, i_log.queue_name),
            hint = format('register it with pgq.register_consumer(%L, %L)', i_log.queue_name, i_consumer_name);
    end if;
    return v_standing;
end;
$$;

comment on function sluice._require_consumer(pgq.queue, text) is
    'Return the position of a consumer of a log; raise an error if it is not registered.';
revoke execute on function sluice._require_consumer(pgq.queue, text) from public;
grant execute on function sluice._require_consumer(pgq.queue, text) to pgq_admin, sluice_admin;

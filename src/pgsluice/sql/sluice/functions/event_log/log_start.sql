-- Security definer: a reader may move its own position, but may not write into the ledgers.
create or replace function sluice.log_start(queue_name text, consumer_name text, starting text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_tick pgq.tick;
    v_subscriber record;
    v_position pgq.position_0;
begin
    v_queue_id := (pgq._require_log(queue_name)).queue_id;

    if starting = 'committed' and not exists (
        select
        from pgq.subscriber as s
        join pgq.consumer as c on c.co_id = s.sub_consumer
        where s.sub_queue = v_queue_id and c.co_name = consumer_name
    ) then
        raise exception using
            errcode = 'PQ002',
            message = format('Not subscriber to queue: %s/%s', queue_name, coalesce(consumer_name, 'NULL')),
            hint = 'start from earliest or latest, which registers it, or give the name of a consumer that is registered';
    end if;

    -- Registered first: from here on no rotation can take the ticks away that are looked at below.
    if consumer_name is not null then
        perform pgq._commit_durably();
        perform pgq.register_consumer(queue_name, consumer_name);
        select s.sub_key, s.sub_ledger
        into v_subscriber
        from pgq.subscriber as s
        join pgq.consumer as c on c.co_id = s.sub_consumer
        where s.sub_queue = v_queue_id
          and c.co_name = consumer_name
        for no key update of s;
        perform pgq._refuse_group(v_subscriber.sub_key);
        v_position := pgq._position(v_subscriber.sub_key, v_subscriber.sub_ledger);
        perform pgq._refuse_lost(v_subscriber.sub_key, v_position.pos_lost);
    end if;

    if starting = 'earliest' then
        v_tick := pgq._tick_after(v_queue_id, 0::bigint);
    elsif starting not in ('latest', 'committed') then
        v_tick := sluice._standing_tick(v_queue_id, starting::bigint);
    elsif v_position.pos_last_tick is not null then
        -- A registered consumer stands where 'latest' was when it was asked first. Asked again, after a
        -- crash before the first commit, the answer must be the same. It is also what it has committed.
        return v_position.pos_last_tick;
    else
        v_tick := pgq._last_tick(v_queue_id);
    end if;
    if v_tick.tick_id is null then
        raise exception using
            errcode = 'PQ004',
            message = format('event log %L keeps no tick %s', queue_name, starting),
            hint = 'start from earliest, the oldest tick that is kept';
    end if;

    -- Asked for a place before its own, a consumer goes back, so that what it is about to read stays.
    if v_position.pos_last_tick > v_tick.tick_id then
        perform pgq._move(v_subscriber.sub_ledger, pgq._at_tick(v_position, v_tick));
    end if;
    return v_tick.tick_id;
end;
$$;

comment on function sluice.log_start(text, text, text) is
    'The tick to start reading at: earliest, latest, committed or a tick''s number; a consumer given is registered, and holds it.';
revoke execute on function sluice.log_start(text, text, text) from public;
grant execute on function sluice.log_start(text, text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

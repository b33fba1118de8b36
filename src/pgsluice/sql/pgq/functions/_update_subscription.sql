-- For PgQ's users and tests, which update the table subscription. A position set here must name ticks that are kept.
create or replace function pgq._update_subscription()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_subscriber pgq.subscriber;
    v_position pgq.position_0;
    v_active timestamptz;
    v_tick pgq.tick;
begin
    if tg_op = 'INSERT' then
        raise exception using
            errcode = 'feature_not_supported',
            message = 'cannot insert into pgq.subscription',
            hint = 'register the consumer with pgq.register_consumer() or pgq.register_consumer_at()';
    end if;

    -- As in register_consumer_at, the position may move back.
    perform from pgq.queue as q where q.queue_id = old.sub_queue for share;
    select s.* into v_subscriber
    from pgq.subscriber as s
    where s.sub_queue = old.sub_queue and s.sub_consumer = old.sub_consumer
    for update;
    if not found then
        return null; -- removed since this statement's snapshot
    end if;
    perform pgq._refuse_group(v_subscriber.sub_key);
    if tg_op = 'DELETE' then
        delete from pgq.position_0 as p where p.pos_subscriber = v_subscriber.sub_key;
        delete from pgq.position_1 as p where p.pos_subscriber = v_subscriber.sub_key;
        delete from pgq.subscriber as s where s.sub_key = v_subscriber.sub_key;
        return old;
    end if;

    v_position := pgq._position(v_subscriber.sub_key, v_subscriber.sub_ledger);
    if (v_position.pos_last_tick, v_position.pos_batch, v_position.pos_next_tick)
        is distinct from (old.sub_last_tick, old.sub_batch, old.sub_next_tick)
    then
        raise exception using
            errcode = 'serialization_failure',
            message = 'could not update pgq.subscription: the consumer has moved since this statement began',
            hint = 'retry the transaction';
    end if;
    if (new.sub_id, new.sub_queue, new.sub_consumer) is distinct from (old.sub_id, old.sub_queue, old.sub_consumer) then
        raise exception using
            errcode = 'feature_not_supported',
            message = 'cannot change the consumer or event log of a subscription',
            detail = 'Only sub_last_tick, sub_active, sub_batch and sub_next_tick can be updated.',
            hint = 'register the other consumer; to unregister this one gives up its position and its retries';
    end if;
    if (new.sub_batch is null) <> (new.sub_next_tick is null) then
        raise exception using
            errcode = 'check_violation',
            message = 'a batch has both sub_batch and sub_next_tick, or neither',
            hint = 'set both to null to close the open batch; its events are redelivered';
    end if;
    perform from pgq.standing as s where s.pos_batch = new.sub_batch and s.sub_key <> v_subscriber.sub_key;
    if found then
        raise exception using
            errcode = 'unique_violation',
            message = format('batch %s belongs to another consumer', new.sub_batch),
            hint = 'take a new number from pgq.batch_id_seq';
    end if;

    v_active := new.sub_active;
    if new.sub_last_tick is distinct from old.sub_last_tick then
        v_tick := pgq._find_tick(old.sub_queue, new.sub_last_tick, true);
        v_position := pgq._at_tick(v_position, v_tick);
    end if;
    if new.sub_next_tick is distinct from v_position.pos_next_tick then
        v_tick := pgq._find_tick(old.sub_queue, new.sub_next_tick, true);
        v_position.pos_next_tick := v_tick.tick_id;
        v_position.pos_next_time := v_tick.tick_time;
        v_position.pos_next_seq := v_tick.tick_event_seq;
        v_position.pos_next_snapshot := v_tick.tick_snapshot;
    end if;
    v_position.pos_batch := new.sub_batch;
    v_position.pos_active := v_active;
    perform pgq._move(v_subscriber.sub_ledger, v_position);
    return new;
end;
$$;

comment on function pgq._update_subscription() is
    'Trigger function of the view pgq.subscription: an update moves the consumer, a deletion removes it.';
revoke execute on function pgq._update_subscription() from public;
grant execute on function pgq._update_subscription() to pgq_admin, sluice_admin;

create or replace trigger subscription_update
instead of insert or update or delete on pgq.subscription
for each row execute function pgq._update_subscription();

-- All events of the key in one transaction: later events could overtake a part.
create or replace function sluice.unpark_key(log_name text, group_name text, key text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_group sluice.share_group := sluice._lock_group(log_name, group_name);
    v_turn sluice.key_turn;
    v_claim sluice.claim;
    v_look sluice.redelivery;
    v_parked bigint;
begin
    v_turn := sluice._last_turn(v_group.group_id, key);
    -- Behind the parked ones, those not parked yet.
    execute format(
        'with parked as (
            delete from sluice.dead_letter_event as d
            where d.queue_name = $1 and d.consumer_name = $2 and d.key = $3 and d.reason = ''parked''
            returning d.*
        ),
        moved as (
            insert into sluice.%I
            select $4, false, $3, false, m.place, m.place, null, m.ev_id, m.ev_time, m.ev_txid, m.ev_type, m.ev_data,
                m.ev_extra1, m.ev_extra2, m.ev_extra3, m.ev_extra4, m.redriven, 0, 0, m.error
            from (
                select o.*, nextval(''sluice.key_place_seq'') as place
                from (
                    select d.msg_id as ev_id, d.enqueued_at as ev_time, d.ev_txid, d.ev_type, d.ev_data, d.ev_extra1, d.ev_extra2, d.ev_extra3,
                        d.ev_extra4, d.redriven + (d.read_ct > 0)::integer as redriven, d.error, 0 as part, d.place as number
                    from parked as d
                    union all
                    select w.ev_id, w.ev_time, w.ev_txid, w.ev_type, w.ev_data, w.ev_extra1, w.ev_extra2, w.ev_extra3, w.ev_extra4,
                        w.redriven + (w.deliveries > 0)::integer, w.error, 1 + (not w.is_returned)::integer, w.place
                    from sluice.waiting_event as w
                    where w.group_id = $4
                      and not w.is_left
                      and w.lane = $3
                      and (w.is_returned and w.waiting_id = any ($5) or not w.is_returned and w.waiting_id > $6)
                      and exists (select from parked)
                    order by part, number
                ) as o
            ) as m
            returning waiting_id
        )
        select (select count(*) from parked), count(*), min(m.waiting_id) - 1 from moved as m',
        format('waiting_event_%s', (select l.number from sluice.ledger as l))
    )
    using log_name, group_name, key, v_group.group_id, v_turn.returned, v_turn.upto_waiting
    into v_parked, v_turn.waiting, v_turn.upto_waiting;
    if v_parked = 0 then
        return 0;
    end if;
    v_turn.returned := '{}';
    v_turn.since := clock_timestamp();
    v_turn.due_at := '-infinity';
    perform sluice._write_turns(array[v_turn]);
    if v_turn.claim_id is null then
        v_claim := sluice._next_claim(sluice._last_claim(v_group.group_id));
        v_look.key := key;
        v_look.due_at := v_claim.claimed_at;
        perform sluice._write_redelivery(v_claim, v_look);
        -- So that the next claim checks the key.
        v_claim.look_at := v_look.due_at;
        perform sluice._write_claim(v_claim);
    end if;
    perform sluice.note_action(
        'unpark_key'::text, log_name, jsonb_build_object('group_name', group_name, 'key', key), v_parked, null::text
    );
    return v_parked;
end;
$$;

comment on function sluice.unpark_key(text, text, text) is
    'Redeliver the events of a parked key in the order of the log, with their attempts reset. Returns the number of parked events.';
revoke execute on function sluice.unpark_key(text, text, text) from public;
grant execute on function sluice.unpark_key(text, text, text) to pgq_admin, sluice_admin;

-- The messages of the key stayed in the queue, and are claimed in order. The waiting one becomes due immediately, and no
-- longer parks the key: its last_read_at, which its release removed, is set to the time at which the key was parked.
create or replace function sluice.unpark_key(queue_name text, key text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_limits sluice.queue_settings;
    v_parked sluice.parked_key;
begin
    select l.*
    into v_limits
    from sluice.queue_settings as l
    where l.queue_table = pgmq.format_table_name(unpark_key.queue_name, 'q');
    if not found then
        perform sluice._registered_name(queue_name);
        return false;
    end if;
    perform sluice._lock_limits(v_limits.limits_id);
    delete from sluice.parked_key as p
    where p.limits_id = v_limits.limits_id and p.key_hash = hashtextextended(unpark_key.key, 0)
    returning p.* into v_parked;
    if not found then
        return false;
    end if;
    execute format(
        'update pgmq.%1$I as q
         set vt = least(q.vt, $1), last_read_at = $2
         where %2$s = $3 and q.read_ct > 0 and q.last_read_at is null',
        v_limits.queue_table, sluice._limit_key_sql('q')
    )
    using clock_timestamp(), v_parked.parked_at, v_parked.key_hash;
    perform sluice.note_action(
        'unpark_key'::text, v_limits.queue_name::text, jsonb_build_object('key', key), null::bigint, null::text
    );
    return true;
end;
$$;

comment on function sluice.unpark_key(text, text) is
    'Unpark a key: its messages are claimed again in order, starting with the waiting one; false if the key is not parked.';
revoke execute on function sluice.unpark_key(text, text) from public;
grant execute on function sluice.unpark_key(text, text) to sluice_admin;

-- Called for every batch: two statements, and no nested function. See pgq._hold_batch for the lock and pgq._position
-- for the settings.
create or replace function pgq.finish_batch(x_batch_id bigint)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_sub_key integer;
    v_ledger integer;
    v_main integer;
    v_position pgq.position_0;
begin
    select s.sub_key, s.sub_ledger, s.sub_main
    into v_sub_key, v_ledger, v_main
    from pgq.subscriber as s
    where s.sub_key = (select p.pos_subscriber from pgq.position_0 as p where p.pos_batch = x_batch_id limit 1)
    for no key update;
    if not found then
        select s.sub_key, s.sub_ledger, s.sub_main
        into v_sub_key, v_ledger, v_main
        from pgq.subscriber as s
        where s.sub_key = (select p.pos_subscriber from pgq.position_1 as p where p.pos_batch = x_batch_id limit 1)
        for no key update;
    end if;
    if v_main is not null then
        return pgq_coop.finish_batch(x_batch_id);
    end if;

    -- As in pgq._move: a transaction whose snapshot is older than the newest move fails on the number.
    if v_ledger = 0 then
        insert into pgq.position_0 (
            pos_subscriber, pos_move, pos_active, pos_last_tick, pos_last_time, pos_last_seq, pos_last_snapshot
        )
        select p.pos_subscriber, p.pos_move + 1, clock_timestamp(),
            p.pos_next_tick, p.pos_next_time, p.pos_next_seq, p.pos_next_snapshot
        from (
            select m.* from pgq.position_0 as m where m.pos_subscriber = v_sub_key order by m.pos_move desc limit 1
        ) as p
        where p.pos_batch = x_batch_id and p.pos_lost is null
        on conflict do nothing;
    elsif v_ledger = 1 then
        insert into pgq.position_1 (
            pos_subscriber, pos_move, pos_active, pos_last_tick, pos_last_time, pos_last_seq, pos_last_snapshot
        )
        select p.pos_subscriber, p.pos_move + 1, clock_timestamp(),
            p.pos_next_tick, p.pos_next_time, p.pos_next_seq, p.pos_next_snapshot
        from (
            select m.* from pgq.position_1 as m where m.pos_subscriber = v_sub_key order by m.pos_move desc limit 1
        ) as p
        where p.pos_batch = x_batch_id and p.pos_lost is null
        on conflict do nothing;
    end if;
    if found then
        return 1;
    end if;

    v_position := pgq._position(v_sub_key, v_ledger);
    if v_position.pos_batch = x_batch_id then
        perform pgq._refuse_lost(v_sub_key, v_position.pos_lost);
    end if;
    raise warning 'finish_batch: batch % not found', x_batch_id;
    return 0;
end;
$$;

comment on function pgq.finish_batch(bigint) is
    'Finish a batch: the consumer moves past its events. Returns 1, or 0 with a warning if it is not open.';
revoke execute on function pgq.finish_batch(bigint) from public;
grant execute on function pgq.finish_batch(bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

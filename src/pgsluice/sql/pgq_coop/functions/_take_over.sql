-- The caller holds the main consumer, so one member at a time looks for an expired one. A member whose row is locked is
-- active and is skipped. The batch gets a new id: if its former owner is only slow, its finish_batch does nothing, and
-- cannot finish the batch of the new owner.
create or replace function pgq_coop._take_over(i_member pgq.subscriber, i_position pgq.position_0, i_dead_interval interval)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key integer;
    v_dead pgq.subscriber;
    v_theirs pgq.position_0;
begin
    for v_key in
        select at.sub_key
        from pgq.standing as at
        join pgq.subscriber as s on s.sub_key = at.sub_key
        where s.sub_main = i_member.sub_main
          and s.sub_key <> i_member.sub_key
          and at.pos_batch is not null
          and at.pos_lost is null
          and at.pos_active < clock_timestamp() - i_dead_interval
        order by at.pos_active
    loop
        select s.* into v_dead from pgq.subscriber as s where s.sub_key = v_key for update skip locked;
        continue when not found;
        v_theirs := pgq._position(v_dead.sub_key, v_dead.sub_ledger);
        continue when v_theirs.pos_batch is null or v_theirs.pos_active >= clock_timestamp() - i_dead_interval;

        v_theirs.pos_subscriber := i_position.pos_subscriber;
        v_theirs.pos_move := i_position.pos_move;
        v_theirs.pos_active := clock_timestamp();
        v_theirs.pos_batch := nextval('pgq.batch_id_seq');
        perform pgq._move(i_member.sub_ledger, v_theirs);
        perform pgq._remove_subscribers(array[v_dead.sub_key]);
        return v_theirs.pos_batch;
    end loop;
    return null;
end;
$$;

comment on function pgq_coop._take_over(pgq.subscriber, pgq.position_0, interval) is
    'Take over the open batch of a member that was inactive for the dead interval, and remove that member; null if there is none.';
revoke execute on function pgq_coop._take_over(pgq.subscriber, pgq.position_0, interval) from public;
grant execute on function pgq_coop._take_over(pgq.subscriber, pgq.position_0, interval) to pgq_admin, sluice_admin;

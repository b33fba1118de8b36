-- Locks the subscriber and then reads its position: until the end of the transaction no other session moves it. NO KEY
-- UPDATE: the row stays, so a registration of the same name need not wait for a transaction that works on a batch.
create or replace function pgq._hold_batch(i_batch_id bigint, out subscriber pgq.subscriber, out standing pgq.position_0)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
begin
    -- One ledger after the other: the second, which may be about to be truncated, is read only if the first has no
    -- match.
    select s.*
    into subscriber
    from pgq.subscriber as s
    where s.sub_key = (select p.pos_subscriber from pgq.position_0 as p where p.pos_batch = i_batch_id limit 1)
    for no key update;
    if not found then
        select s.*
        into subscriber
        from pgq.subscriber as s
        where s.sub_key = (select p.pos_subscriber from pgq.position_1 as p where p.pos_batch = i_batch_id limit 1)
        for no key update;
    end if;
    if found then
        standing := pgq._position(subscriber.sub_key, subscriber.sub_ledger);
    end if;
    if standing.pos_batch is distinct from i_batch_id then
        subscriber := null;
        standing := null;
    end if;
end;
$$;

comment on function pgq._hold_batch(bigint) is
    'Lock the subscriber of an open batch; returns it with its position, nulls if the batch is not open.';
revoke execute on function pgq._hold_batch(bigint) from public;
grant execute on function pgq._hold_batch(bigint) to pgq_admin, sluice_admin;

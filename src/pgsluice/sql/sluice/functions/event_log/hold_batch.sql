-- For a transaction that processes a batch and finishes it. Another session of the same consumer gets the same batch from
-- next_batch; here it gets an error immediately, instead of after the work.
create or replace function sluice.hold_batch(batch_id bigint)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_sub_key integer;
    v_subscriber pgq.subscriber;
    v_position pgq.position_0;
begin
    -- As in pgq._hold_batch, one ledger after the other.
    select p.pos_subscriber into v_sub_key from pgq.position_0 as p where p.pos_batch = batch_id limit 1;
    if not found then
        select p.pos_subscriber into v_sub_key from pgq.position_1 as p where p.pos_batch = batch_id limit 1;
    end if;
    select s.* into v_subscriber from pgq.subscriber as s where s.sub_key = v_sub_key for no key update skip locked;
    if found then
        v_position := pgq._position(v_subscriber.sub_key, v_subscriber.sub_ledger);
    else
        perform from pgq.subscriber as s where s.sub_key = v_sub_key;
        if found then
            raise exception using
                errcode = 'PQ004',
                message = format('batch %s is being processed by another session', batch_id),
                hint = 'leave it to that session; call next_batch again later';
        end if;
    end if;
    if (v_position.pos_batch = batch_id) is not true then
        raise exception using
            errcode = 'PQ003',
            message = 'batch not found',
            detail = format('The batch id is %s.', batch_id),
            hint = 'open a batch with pgq.next_batch(); a finished one cannot be read again';
    end if;
    perform pgq._refuse_lost(v_subscriber.sub_key, v_position.pos_lost);
end;
$$;

comment on function sluice.hold_batch(bigint) is
    'Lock an open batch for this transaction; fails immediately if another session holds it, or if it is not open.';
revoke execute on function sluice.hold_batch(bigint) from public;
grant execute on function sluice.hold_batch(bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

create or replace function pgq_coop.finish_batch(i_batch_id bigint)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_batch record;
    v_position pgq.position_0;
begin
    v_batch := pgq._hold_batch(i_batch_id);
    if (v_batch.subscriber).sub_main is null then
        raise warning 'coop_finish_batch: batch % not found', i_batch_id;
        return 0;
    end if;
    v_position := v_batch.standing;
    perform pgq._refuse_lost(v_position.pos_subscriber, v_position.pos_lost);
    -- A member keeps no position: the main consumer moved when the batch was opened.
    perform pgq._move((v_batch.subscriber).sub_ledger, pgq._at_tick(v_position, null::pgq.tick));
    return 1;
end;
$$;

comment on function pgq_coop.finish_batch(bigint) is
    'Finish a subconsumer''s batch. Returns 1, or 0 with a warning if it is not open: finished, or taken over by another one.';
revoke execute on function pgq_coop.finish_batch(bigint) from public;
grant execute on function pgq_coop.finish_batch(bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

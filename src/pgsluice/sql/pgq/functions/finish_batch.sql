create or replace function pgq.finish_batch(x_batch_id bigint)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_batch record;
    v_position pgq.position_0;
begin
    v_batch := pgq._hold_batch(x_batch_id);
    v_position := v_batch.standing;
    if v_position.pos_batch is null then
        raise warning 'finish_batch: batch % not found', x_batch_id;
        return 0;
    end if;
    v_position.pos_last_tick := v_position.pos_next_tick;
    v_position.pos_last_time := v_position.pos_next_time;
    v_position.pos_last_seq := v_position.pos_next_seq;
    v_position.pos_last_snapshot := v_position.pos_next_snapshot;
    v_position.pos_batch := null;
    v_position.pos_next_tick := null;
    v_position.pos_next_time := null;
    v_position.pos_next_seq := null;
    v_position.pos_next_snapshot := null;
    perform pgq._move((v_batch.subscriber).sub_ledger, v_position);
    return 1;
end;
$$;

comment on function pgq.finish_batch(bigint) is
    'Close a batch: the consumer moves behind its events. 1, or 0 and a warning when it is not open.';
revoke execute on function pgq.finish_batch(bigint) from public;
grant execute on function pgq.finish_batch(bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

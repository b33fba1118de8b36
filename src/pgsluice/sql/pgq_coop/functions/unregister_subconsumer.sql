create or replace function pgq_coop.unregister_subconsumer(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text, i_batch_handling integer
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_member pgq.subscriber;
    v_position pgq.position_0;
begin
    if i_batch_handling is null or i_batch_handling not in (0, 1) then
        raise exception using
            errcode = '22023',
            message = format('invalid batch handling: %s', coalesce(i_batch_handling::text, 'NULL')),
            hint = '0 raises an error if the subconsumer has an open batch, 1 drops the batch with its events';
    end if;
    select s.* into v_member
    from pgq.subscriber as s
    where s.sub_key = (pgq_coop._member(i_queue_name, i_consumer_name, i_subconsumer_name)).sub_key
    for update;
    if not found then
        return 0;
    end if;
    v_position := pgq._position(v_member.sub_key, v_member.sub_ledger);
    if v_position.pos_batch is not null and i_batch_handling = 0 then
        raise exception using
            errcode = 'PQ004',
            message = 'subconsumer has active batch',
            detail = format('%s.%s on queue %s has batch %s open.', i_consumer_name, i_subconsumer_name, i_queue_name, v_position.pos_batch),
            hint = 'finish it with pgq_coop.finish_batch(), or pass 1 to drop it with its events';
    end if;
    perform pgq._remove_subscribers(array[v_member.sub_key]);
    return 1;
end;
$$;

comment on function pgq_coop.unregister_subconsumer(text, text, text, integer) is
    'Remove a subconsumer; with an open batch, raise an error (0) or drop the batch with its events (1). Returns how many were removed.';
revoke execute on function pgq_coop.unregister_subconsumer(text, text, text, integer) from public;
grant execute on function pgq_coop.unregister_subconsumer(text, text, text, integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

-- The caller holds the lock on the subscriber's row of pgq.subscriber, and has read its position after the lock. A
-- transaction with an older snapshot reads an older position, and the number of its move is taken: the key refuses it.
create or replace function pgq._move(i_ledger integer, i_position pgq.position_0)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    i_position.pos_move := coalesce(i_position.pos_move, 0) + 1;
    -- Not by catching an exception: a subtransaction would take another transaction id for each batch.
    if i_ledger = 0 then
        insert into pgq.position_0 values (i_position.*) on conflict do nothing;
    else
        insert into pgq.position_1 values (i_position.*) on conflict do nothing;
    end if;
    if not found then
        raise exception using
            errcode = 'serialization_failure',
            message = 'could not move a consumer: its position is newer than what this transaction has read',
            hint = 'retry the transaction, preferably in READ COMMITTED';
    end if;
end;
$$;

comment on function pgq._move(integer, pgq.position_0) is
    'Append a move of a subscriber to the given position.';
revoke execute on function pgq._move(integer, pgq.position_0) from public;
grant execute on function pgq._move(integer, pgq.position_0) to pgq_admin, sluice_admin;

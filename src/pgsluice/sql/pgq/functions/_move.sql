-- Whoever moves a subscriber holds the lock on its row of pgq.subscriber, and has read its position after it got the lock. A
-- transaction with an older snapshot reads an older position, and its move has a number that is taken: the key refuses it.
create or replace function pgq._move(i_ledger integer, i_position pgq.position_0)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    i_position.pos_move := coalesce(i_position.pos_move, 0) + 1;
    i_position.pos_active := clock_timestamp();
    if i_ledger = 0 then
        insert into pgq.position_0 values (i_position.*);
    else
        insert into pgq.position_1 values (i_position.*);
    end if;
exception
    when unique_violation then
        raise exception using
            errcode = 'serialization_failure',
            message = 'could not move a consumer: its position is newer than this transaction''s snapshot',
            hint = 'try the transaction again, best in READ COMMITTED';
end;
$$;

comment on function pgq._move(integer, pgq.position_0) is
    'Write the next move of a subscriber: its position as given, from now on.';
revoke execute on function pgq._move(integer, pgq.position_0) from public;
grant execute on function pgq._move(integer, pgq.position_0) to pgq_admin, sluice_admin;

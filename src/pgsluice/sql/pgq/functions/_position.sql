-- Static statements for the two ledgers: their plans are cached and use the index. Statistics from when a ledger was
-- nearly empty would lead to a scan, and the ledger grows. JIT is off, because a disabled scan looks expensive enough
-- to be compiled.
create or replace function pgq._position(i_sub_key integer, i_ledger integer)
returns pgq.position_0
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_position pgq.position_0;
begin
    if i_ledger = 0 then
        select p.* into v_position
        from pgq.position_0 as p
        where p.pos_subscriber = i_sub_key
        order by p.pos_move desc
        limit 1;
    else
        select p.* into v_position
        from pgq.position_1 as p
        where p.pos_subscriber = i_sub_key
        order by p.pos_move desc
        limit 1;
    end if;
    if not found then
        -- Every subscriber has a row from its registration on: it was removed by
        -- hand. To start at the last tick instead would skip events.
        v_position.pos_subscriber := i_sub_key;
        v_position.pos_lost := 'its rows in pgq.position_0 and pgq.position_1 are missing';
    end if;
    return v_position;
end;
$$;

comment on function pgq._position(integer, integer) is
    'Return the position of a subscriber: the newest move in its current ledger, or a lost one if there is none. To change it, lock the subscriber first.';
revoke execute on function pgq._position(integer, integer) from public;
grant execute on function pgq._position(integer, integer) to pgq_admin, sluice_admin;

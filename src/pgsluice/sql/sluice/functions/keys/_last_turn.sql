-- One backward index step per table, however many rows the key has.
create or replace function sluice._last_turn(i_group_id integer, i_key text)
returns sluice.key_turn
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_turn sluice.key_turn;
begin
    select t.* into v_turn
    from sluice.key_turn as t
    where t.group_id = i_group_id and t.key = i_key
    order by t.turn_id desc
    limit 1;
    if not found then
        v_turn.group_id := i_group_id;
        v_turn.key := i_key;
        v_turn.due_at := '-infinity';
        v_turn.returned := '{}';
        v_turn.upto_waiting := 0;
        v_turn.waiting := 0;
    end if;
    return v_turn;
end;
$$;

comment on function sluice._last_turn(integer, text) is
    'Return the state of a key of a share group; a row of a free key if there is none.';
revoke execute on function sluice._last_turn(integer, text) from public;
grant execute on function sluice._last_turn(integer, text) to pgq_admin, sluice_admin;

-- The cost is proportional to the rows of keys with waiting events since the ledgers were last truncated.
create or replace function sluice._waiting_turns(i_group_id integer)
returns setof sluice.key_turn
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
begin
    return query
        select t.*
        from (
            select distinct on (w.key) w.turn_id, w.key
            from sluice.key_turn as w
            where w.group_id = i_group_id and (w.waiting > 0 or w.returned <> '{}')
            order by w.key, w.turn_id desc
        ) as newest
        cross join lateral (
            select n.*
            from sluice.key_turn as n
            where n.group_id = i_group_id and n.key = newest.key
            order by n.turn_id desc
            limit 1
        ) as t
        where t.turn_id = newest.turn_id;
end;
$$;

comment on function sluice._waiting_turns(integer) is
    'Return the state of the keys of a share group with waiting events, in the order of the keys.';
revoke execute on function sluice._waiting_turns(integer) from public;
grant execute on function sluice._waiting_turns(integer) to pgq_admin, sluice_admin;

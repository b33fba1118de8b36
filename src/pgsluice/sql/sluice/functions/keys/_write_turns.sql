create or replace function sluice._write_turns(i_turns sluice.key_turn[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- The numbers are assigned here, so that the newest has the largest.
    if (select l.number from sluice.ledger as l) = 0 then
        insert into sluice.key_turn_0
        select t.group_id, t.key, nextval('sluice.key_place_seq'), t.claim_id, t.since, t.due_at, t.returned, t.upto_waiting, t.waiting
        from unnest(i_turns) as t;
    else
        insert into sluice.key_turn_1
        select t.group_id, t.key, nextval('sluice.key_place_seq'), t.claim_id, t.since, t.due_at, t.returned, t.upto_waiting, t.waiting
        from unnest(i_turns) as t;
    end if;
end;
$$;

comment on function sluice._write_turns(sluice.key_turn[]) is
    'Append the new states of keys. The caller holds the lock of the group.';
revoke execute on function sluice._write_turns(sluice.key_turn[]) from public;
grant execute on function sluice._write_turns(sluice.key_turn[]) to pgq_admin, sluice_admin;

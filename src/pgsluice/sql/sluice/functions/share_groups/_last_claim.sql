-- One backward step in an index, independent of the ledger's size. A separate statement, so that its snapshot is taken after the lock. Static statements for
-- the two tables, so that their plans are cached.
create or replace function sluice._last_claim(i_group_id integer)
returns sluice.claim
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_claim sluice.claim;
    v_is_first boolean := (select l.number from sluice.ledger as l) = 0;
begin
    -- The newest claim is in the current table, or in the other one if the group has written nothing since the last switch.
    for v_try in 1 .. 2
    loop
        if v_is_first then
            select c.* into v_claim from sluice.claim_0 as c where c.group_id = i_group_id order by c.claim_id desc limit 1;
        else
            select c.* into v_claim from sluice.claim_1 as c where c.group_id = i_group_id order by c.claim_id desc limit 1;
        end if;
        exit when found;
        v_is_first := not v_is_first;
    end loop;
    return v_claim;
end;
$$;

comment on function sluice._last_claim(integer) is
    'Return the newest claim of a share group, which is its cursor.';
revoke execute on function sluice._last_claim(integer) from public;
grant execute on function sluice._last_claim(integer) to pgq_admin, sluice_admin;

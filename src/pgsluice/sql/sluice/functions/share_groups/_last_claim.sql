-- One step back in an index, however long the ledger is. A statement of its own, so that it is after the lock. Static, for the two tables: the plan is kept.
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
    -- In the table that is written to, unless nothing of this group was written since the last switch: then in the other.
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
    'How far a share group is: the newest row of its claims.';
revoke execute on function sluice._last_claim(integer) from public;
grant execute on function sluice._last_claim(integer) to pgq_admin, sluice_admin;

-- One step back in an index of each table, however long the ledger is. A statement of its own, so that it is after the lock.
create or replace function sluice._last_claim(i_group_id integer)
returns sluice.claim
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_claim sluice.claim;
begin
    select c.* into v_claim from sluice.claim as c where c.group_id = i_group_id order by c.claim_id desc limit 1;
    return v_claim;
end;
$$;

comment on function sluice._last_claim(integer) is
    'How far a share group is: the newest row of its claims.';
revoke execute on function sluice._last_claim(integer) from public;
grant execute on function sluice._last_claim(integer) to pgq_admin, sluice_admin;

create or replace function sluice._write_claim(i_claim sluice.claim)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Static statements: their plans are kept.
    if (select l.number from sluice.ledger as l) = 0 then
        insert into sluice.claim_0 values (i_claim.*);
    else
        insert into sluice.claim_1 values (i_claim.*);
    end if;
end;
$$;

comment on function sluice._write_claim(sluice.claim) is
    'Append a claim, and with it how far its group is. The caller has the lock of the group.';
revoke execute on function sluice._write_claim(sluice.claim) from public;
grant execute on function sluice._write_claim(sluice.claim) to pgq_admin, sluice_admin;

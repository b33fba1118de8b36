-- Never behind the last one that was read, nor before it in time: the place of the last one read is all that a group remembers.
create or replace function sluice._write_redelivery(i_claim sluice.claim, i_redelivery sluice.redelivery)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    i_redelivery.group_id := i_claim.group_id;
    i_redelivery.due_at := greatest(i_redelivery.due_at, i_claim.upto_due);
    i_redelivery.redelivery_id := nextval('sluice.redelivery_id_seq');
    if (select l.number from sluice.ledger as l) = 0 then
        insert into sluice.redelivery_0 values (i_redelivery.*);
    else
        insert into sluice.redelivery_1 values (i_redelivery.*);
    end if;
end;
$$;

comment on function sluice._write_redelivery(sluice.claim, sluice.redelivery) is
    'Append an event that comes again, or a lease to look at; the claim says how far the group has read. The caller has the lock of the group.';
revoke execute on function sluice._write_redelivery(sluice.claim, sluice.redelivery) from public;
grant execute on function sluice._write_redelivery(sluice.claim, sluice.redelivery) to pgq_admin, sluice_admin;

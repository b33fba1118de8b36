-- Calls: sluice._turn. Writes: the sequence of the role, outside of the transaction.
create or replace function sluice.resign(role text, candidate integer)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if (select t.candidate from sluice._turn(role) as t) is distinct from candidate then
        return false;
    end if;
    perform setval(format('sluice.%I', role || '_turn')::regclass, 1, false);
    return true;
end;
$$;

comment on function sluice.resign(text, integer) is
    'Resign from a role, so that another candidate leads immediately; false if this one does not lead.';
revoke execute on function sluice.resign(text, integer) from public;
grant execute on function sluice.resign(text, integer) to sluice_admin, sluice_reader;

-- Not for a sequence that others draw from at this moment: a number drawn between the look and the move would be given again.
create or replace function pgq.seq_setval(i_seq_name text, i_new_value bigint)
returns bigint
language plpgsql
strict
set search_path = pg_catalog, pg_temp
as $$
declare
    v_value bigint := pgq.seq_getval(i_seq_name);
begin
    if i_new_value > v_value then
        v_value := setval(pgq.quote_fqname(i_seq_name)::regclass, i_new_value);
    end if;
    return v_value;
end;
$$;

comment on function pgq.seq_setval(text, bigint) is
    'Move a sequence forward to this value, never back; returns where it is.';
revoke execute on function pgq.seq_setval(text, bigint) from public;
grant execute on function pgq.seq_setval(text, bigint) to pgq_admin, sluice_admin;

-- Not for a sequence in concurrent use: a number given out between the read and the setval would be given out again.
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
    'Advance a sequence to this value, never back; returns its value.';
revoke execute on function pgq.seq_setval(text, bigint) from public;
grant execute on function pgq.seq_setval(text, bigint) to pgq_admin, sluice_admin;

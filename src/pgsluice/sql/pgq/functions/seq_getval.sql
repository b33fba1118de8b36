create or replace function pgq.seq_getval(i_seq_name text)
returns bigint
language plpgsql
strict
set search_path = pg_catalog, pg_temp
as $$
declare
    v_value bigint;
begin
    execute format('select ids.last_value from %s as ids', pgq.quote_fqname(i_seq_name)) into v_value;
    return v_value;
end;
$$;

comment on function pgq.seq_getval(text) is
    'Return the last value of a sequence, 1 before the first; a name without a schema is in public.';

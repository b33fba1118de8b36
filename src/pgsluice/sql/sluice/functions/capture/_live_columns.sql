-- The columns as they are, also for a transaction whose snapshot is older than their last change: pg_identify_object reads
-- the catalog without that snapshot, as the executor does.
create or replace function sluice._live_columns(relation oid)
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_names text[] := '{}';
    v_identity text;
    v_name text;
    v_attnum integer := 0;
begin
    loop
        v_attnum := v_attnum + 1;
        select o.identity
        into v_identity
        from pg_identify_object('pg_class'::regclass, relation, v_attnum) as o;
        exit when v_identity is null;
        v_name := (parse_ident(v_identity))[3];
        v_names := v_names || case when v_name <> format('........pg.dropped.%s........', v_attnum) then v_name end;
    end loop;
    return v_names;
end;
$$;

comment on function sluice._live_columns(oid) is
    'Return the names of a table''s columns by attnum, null for dropped ones, whatever the snapshot of the transaction.';
revoke execute on function sluice._live_columns(oid) from public;
grant execute on function sluice._live_columns(oid) to pgq_admin, sluice_admin;

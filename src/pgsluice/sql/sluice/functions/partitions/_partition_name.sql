/*
 * The upper case keeps the name apart from the tables of queues, whose names are folded to lower case, so neither can
 * collide with the other. A name too long for an identifier is replaced by its hash.
 */
create or replace function sluice._partition_name(table_name name, starts_at bigint, is_time boolean)
returns name
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_start text := '_P' || regexp_replace(
        replace(regexp_replace(sluice._partition_literal(starts_at, is_time), E'( 00:00:00)?\\+00$', ''), ' ', 'T'),
        '[-:]', '', 'g'
    );
    v_stem text := table_name;
    v_name name;
    v_number integer := 1;
begin
    if octet_length(v_stem || v_start) > 60 then
        v_stem := left(v_stem, 2) || md5(v_stem);
    end if;
    v_name := v_stem || v_start;
    -- A manually detached table, or an earlier partition with the same start, may have the name.
    while to_regclass(format('pgmq.%I', v_name)) is not null
    loop
        v_number := v_number + 1;
        v_name := v_stem || v_start || '_' || v_number;
    end loop;
    return v_name;
end;
$$;

comment on function sluice._partition_name(name, bigint, boolean) is
    'Return a free name for a partition with this start.';
revoke execute on function sluice._partition_name(name, bigint, boolean) from public;
grant execute on function sluice._partition_name(name, bigint, boolean) to sluice_admin;

-- As PGMQ decides: an integer is a number of ids, everything else a time.
create or replace function sluice._is_time_interval(partition_interval text)
returns boolean
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    perform partition_interval::integer;
    return false;
exception
    when invalid_text_representation or numeric_value_out_of_range then
        return true;
end;
$$;

comment on function sluice._is_time_interval(text) is
    'True if a partition interval is a time instead of a number of ids.';
revoke execute on function sluice._is_time_interval(text) from public;
grant execute on function sluice._is_time_interval(text) to sluice_admin;

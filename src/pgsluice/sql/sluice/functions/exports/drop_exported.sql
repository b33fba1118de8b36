create or replace function sluice.drop_exported(queue_name text, rows_max integer default 10000)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name text := sluice._registered_name(queue_name);
begin
    if rows_max is null or rows_max < 1 then
        raise exception using
            errcode = '22023',
            message = format('rows_max must be 1 or more: %s', rows_max),
            hint = 'pass the maximum number of messages to drop, and repeat the call for more';
    end if;
    return sluice._drop_exported(v_queue_name, 'infinity'::timestamptz, rows_max::bigint);
end;
$$;

comment on function sluice.drop_exported(text, integer) is
    'Drop archived messages that every export of the queue has verified in its lake, regardless of the retention; returns their number, 0 if none is left.';
revoke execute on function sluice.drop_exported(text, integer) from public;
grant execute on function sluice.drop_exported(text, integer) to sluice_admin;

create or replace function sluice._require_key(i_key text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- In its own spelling a path has its names in quotes. No filter, no function, no wildcard: nothing that costs or fails.
    if i_key in ('ev_type', 'ev_data', 'ev_extra1', 'ev_extra2', 'ev_extra3', 'ev_extra4')
        or i_key like '$%' and i_key::jsonpath::text ~ '^\$(\."([^"\\]|\\.)*"|\[[0-9]+\])*$'
    then
        return;
    end if;
    raise exception using
        errcode = '22023',
        message = format('a share group cannot have the key %L', i_key),
        hint = 'use ev_type, ev_data, ev_extra1 to ev_extra4, or a path into ev_data such as $.customer.id or $.lines[0].sku';
end;
$$;

comment on function sluice._require_key(text) is
    'Raise unless this can be the key of a share group: a field, or a path of members and elements into ev_data.';
revoke execute on function sluice._require_key(text) from public;
grant execute on function sluice._require_key(text) to pgq_admin, sluice_admin;

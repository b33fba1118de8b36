-- Names are in indexes, some two in one entry, which is limited to about 2,700 bytes.
create or replace function sluice._require_short_name(i_what text, i_name text)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bytes_max constant integer := 1024;
begin
    if octet_length(i_name) > v_bytes_max then
        raise exception using
            errcode = '22023',
            message = format('%s has %s bytes', i_what, octet_length(i_name)),
            hint = format('use at most %s bytes', v_bytes_max);
    end if;
end;
$$;

comment on function sluice._require_short_name(text, text) is
    'Raise an error if a name is too long for an index.';
revoke execute on function sluice._require_short_name(text, text) from public;
grant execute on function sluice._require_short_name(text, text) to pgq_admin, sluice_admin;

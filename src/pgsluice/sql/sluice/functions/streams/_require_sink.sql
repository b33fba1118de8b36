create or replace function sluice._require_sink(sink_id text, version bigint)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    -- An index entry is limited to about 2,700 bytes.
    v_bytes_max constant integer := 1024;
begin
    if sink_id is null or version is null then
        raise exception using
            errcode = '22004',
            message = 'sink_id or version is null',
            hint = 'pass the name of the writer, and the number of the version';
    end if;
    if octet_length(sink_id) not between 1 and v_bytes_max then
        raise exception using
            errcode = '22023',
            message = format('sink_id has %s bytes', octet_length(sink_id)),
            hint = format('use 1 to %s bytes, and a hash of longer ones', v_bytes_max);
    end if;
end;
$$;

comment on function sluice._require_sink(text, bigint) is
    'Raise an error if this is not a valid version of a sink.';
revoke execute on function sluice._require_sink(text, bigint) from public;
grant execute on function sluice._require_sink(text, bigint) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
